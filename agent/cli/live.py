"""What a person sees while a conversation runs: the transcript and the reply as they come, then each turn's
explanation, and below it all a line that the command keeps."""

import asyncio
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agent.cli import consoles
from agent.events import AgentSays, Event, HistoryTrimmed, ListeningFailed, PartialTranscript, TurnEnded, UserSaid
from agent.scenario import Scenario

REFRESH_S = 0.05


class LiveDisplay:
    """Draws at most 20 times a second and never while an event is handled, so that drawing adds nothing to a turn's
    wait. `explain` prints a turn that has ended, with its number; `bottom` gives the line at the bottom, on a
    terminal."""

    def __init__(
        self,
        console: Console,
        explain: Callable[[TurnEnded, int], None],
        bottom: Callable[[], str] | None = None,
    ):
        self._console = console
        self._explain = explain
        self._bottom = bottom
        self._said: list[str] = []
        self._user = ""
        self._agent = ""
        self._partial = ""
        self._ended: list[TurnEnded] = []
        self._changed = bottom is not None
        self._shown = 0

    def observe(self, event: Event) -> None:
        match event:
            case PartialTranscript(_, text):
                self._partial = text
            case UserSaid(_, text):
                self._user, self._partial = text, ""
            case AgentSays(_, text):
                self._agent += text
            case TurnEnded():
                self._ended.append(event)
            case HistoryTrimmed(_, dropped):
                self.say(
                    f"The model's context is full: it no longer knows the oldest {dropped} turns of this conversation."
                )
            case ListeningFailed(stage, error):
                self.say(f"Listening failed at {stage}: {error}")
            case _:
                return
        self._changed = True

    def announce(self, scenario: Scenario) -> None:
        """Say what begins to play."""
        self._show_ended()
        title = Text.assemble(("Playing ", ""), (scenario.name, "bold"), f": {printable(scenario.description)}")
        self._console.print(title, "\n", highlight=False)

    def say(self, sentence: str) -> None:
        """Print a sentence about the conversation, after the turns that have ended."""
        self._said.append(sentence)
        self._changed = True

    def refresh(self) -> None:
        """The line at the bottom has changed."""
        self._changed = True

    async def __aenter__(self) -> "LiveDisplay":
        self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drawing.cancel()
        await asyncio.wait([self._drawing])
        if not self._drawing.cancelled() and (error := self._drawing.exception()):
            raise error
        self._show_ended()

    async def _draw(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                await asyncio.sleep(REFRESH_S)
                if self._changed:
                    self._changed = False
                    self._show_ended()
                    if self._console.is_terminal:
                        live.update(self._in_progress(), refresh=True)

    def _show_ended(self) -> None:
        ended, self._ended = self._ended, []
        for event in ended:
            self._shown += 1
            self._explain(event, self._shown)
            self._agent = self._user = ""
        said, self._said = self._said, []
        for sentence in said:
            consoles.note(self._console, sentence)

    def _in_progress(self) -> Group:
        lines = [_line("you", self._partial + " …", "cyan")] if self._partial else []
        if self._user:
            lines.append(_line("you", self._user, "cyan"))
        if self._agent:
            lines.append(_line("agent", self._agent.strip() + " …", "green"))
        if self._bottom is not None:
            lines.append(Text(self._bottom(), "dim", no_wrap=True, overflow="ellipsis"))
        return Group(*lines)


def printable(text: str) -> str:
    """Without control characters, which a terminal would obey."""
    return "".join(character for character in text if character.isprintable())


def _line(who: str, text: str, style: str) -> Text:
    return Text.assemble((f"{who:>6}  ", f"bold {style}"), (text, style))
