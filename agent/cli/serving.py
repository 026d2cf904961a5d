"""What the web server is handed that needs the profiler: run folders, and reports about them."""

import io
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from agent.cli.explaining import explanation_of
from agent.cli.gathering import Gathered
from agent.cli.session import Session
from agent.errors import TurnscopeError
from agent.events import Event
from agent.recording import ScenarioRecorder
from agent.recording_folder import new_recording
from agent.settings import Settings, recorded
from profiling.report.terminal import print_summary, print_turn
from profiling.run import RunUnreadable, RunUnwritable, RunWriter, load_run
from profiling.run_evidence import load_evidence
from profiling.trace.clock import Clock
from profiling.whole_file import write_whole

WIDTH = 110  # of a report, in letters
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Turnscope report</title></head>
<body style="color: {foreground}; background-color: {background}">
<pre style="font-family: monospace; line-height: 1.2"><code>{code}</code></pre></body></html>
"""


class WrittenCall:
    """A call's run folder; see `agent.web.service.CallRun`."""

    def __init__(self, session: Session):
        self._session = session

    @property
    def name(self) -> str:
        return self._session.writer.folder.name

    def observe(self, event: Event) -> None:
        with _as_sentences():
            self._session.observe(event)

    def close(self, complete: bool) -> None:
        self._session.complete = complete
        with _as_sentences():
            self._session.close()


class CallFolders:
    """Makes a folder for every call below `parent`, and reports on those that it made."""

    def __init__(self, parent: Path, settings: Settings, models: dict[str, str], gathered: Gathered, clock: Clock):
        self._parent = parent
        self._settings = settings
        self._models = models
        self._gathered = gathered
        self._clock = clock
        self.names: list[str] = []

    def open(self) -> WrittenCall:
        """Its name cannot be guessed: a report is for the one who called. Raises TurnscopeError."""
        with _as_sentences():
            name = f"call-{secrets.token_hex(6)}"
            writer = RunWriter(self._parent, name, self._clock, settings=recorded(self._settings), models=self._models)
            self._gathered.keep(writer.folder)
        self.names.append(writer.folder.name)
        return WrittenCall(Session(writer, self._settings.capture_content, None, self._gathered.book))

    def report(self, name: str) -> str | None:
        """What `turnscope explain` prints, as one page of HTML."""
        return html_of(lambda console: explain(console, self._parent / name)) if name in self.names else None


class Recordings:
    """A scenario for every caller: the first is NAME, those after it NAME-2 and so on. Making it makes the first one's
    folder, and raises TurnscopeError where that cannot be."""

    def __init__(self, name: str, settings: Settings, clock: Clock, tell: Callable[[str], None]):
        self._name = name
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._number = 1
        self._first: Path | None = new_recording(name)

    def open(self) -> ScenarioRecorder:
        """Raises TurnscopeError."""
        folder, self._first = self._first, None
        if folder is None:
            self._number += 1
            folder = new_recording(f"{self._name}-{self._number}")
        return ScenarioRecorder(
            folder, self._settings, self._clock, write=write_whole, tell=self._tell, command="turnscope serve"
        )

    def close(self) -> None:
        """Nobody called: no folder stays."""
        if self._first is not None:
            with suppress(OSError):
                self._first.rmdir()


def explain(console: Console, folder: Path) -> None:
    """Every turn, the summary and why the time went where it went."""
    try:
        run, found = load_run(folder), load_evidence(folder)
    except RunUnreadable as error:
        console.print(str(error), markup=False)
        return
    explanation = explanation_of(run.turns, run.info.settings if run.info else {}, found, run.info)
    for place, (turn, content) in enumerate(zip(run.turns, run.contents, strict=True)):
        print_turn(console, turn, place + 1, content and content.transcript, content and content.reply)
        explanation.print_turn(console, place)
    if not run.turns:
        console.print("Nothing has been said yet.")
        return
    print_summary(console, run.turns, explanation.impossible)
    explanation.print_run(console)


def html_of(tell: Callable[[Console], None]) -> str:
    """What is printed, as a page without anything from elsewhere."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    tell(console)
    return console.export_html(inline_styles=True, code_format=PAGE)


@contextmanager
def _as_sentences() -> Generator[None]:
    """agent.web knows one kind of sentence."""
    try:
        yield
    except RunUnwritable as error:
        raise TurnscopeError(str(error)) from None
