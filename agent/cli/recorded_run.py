"""A run folder for as long as a conversation lasts: made, filled, closed and told about."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from agent import models
from agent.audio.stereo_writer import StereoWriter
from agent.cli.gathering import Gathered
from agent.cli.run_report import print_end
from agent.cli.session import ConversationRecording, Session
from agent.engine_choice import choose, needed_models
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.settings import Settings, recorded
from profiling.run import RunWriter
from profiling.trace.clock import Clock

if TYPE_CHECKING:
    from profiling.trace.collector import Collector


@dataclass(frozen=True)
class RecordedRun:
    """`session` takes every event, `recording` both sides of the sound."""

    session: Session
    recording: ConversationRecording

    @property
    def folder(self) -> Path:
        return self.session.writer.folder


def require_runs_folder(runs_folder: Path) -> None:
    """Before minutes are spent. Raises TurnscopeError."""
    if runs_folder.exists() and not runs_folder.is_dir():
        raise TurnscopeError(f"{runs_folder} is not a folder: give one to --runs, where run folders can be made.")


def collector_at(url: str) -> "Collector":
    from profiling.trace.collector import Collector  # imported late: it takes 0.2 s

    try:
        return Collector(url)
    except ValueError as error:
        raise TurnscopeError(str(error)) from None


@contextmanager
def recorded_run(
    runs_folder: Path,
    name: str,
    settings: Settings,
    engines: Engines,
    gathered: Gathered,
    clock: Clock,
    console: Console,
    notes: Console,
    *,
    scenarios: Sequence[str] = (),
    expected: int | None = None,
    collector: "Collector | None" = None,
) -> Iterator[RecordedRun]:
    """Probes the machine before anything runs. However the block ends, the folder is closed and the end is printed."""
    with ExitStack() as at_the_end:
        writer = RunWriter(
            runs_folder,
            name,
            clock,
            settings=recorded(settings),
            scenarios=scenarios,
            models=_model_hashes(settings),
        )
        gathered.keep(writer.folder)
        gathered.probe(writer.folder, clock)
        session = Session(writer, settings.capture_content, collector, gathered.book)
        measured = gathered.survey is not None
        at_the_end.callback(lambda: print_end(console, notes, session, measured=measured, expected=expected))
        at_the_end.callback(session.close)
        rate_hz = engines.tts.sample_rate
        recording = ConversationRecording(StereoWriter(writer.wav_path, rate_hz), rate_hz)
        at_the_end.callback(recording.close)
        yield RecordedRun(session, recording)


def _model_hashes(settings: Settings) -> dict[str, str]:
    """SHA-256 by file of every stored model in use; of one given by path, its file name alone is known."""
    names, choice = needed_models(settings), choose(settings)
    hashes = {f"{name}/{file}": stored.sha256 for name in names for file, stored in models.stored_files(name).items()}
    given = [path for path in (choice.asr_path, choice.llm_path, choice.tts_path, settings.llm.draft) if path]
    return hashes | {path.name: "not verified" for path in given}
