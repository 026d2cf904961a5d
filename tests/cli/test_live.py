"""What is shown while a conversation runs."""

import asyncio
import io

from rich.console import Console

from agent.cli.live import REFRESH_S, LiveDisplay
from agent.events import PartialTranscript, TurnEnded, UserSaid
from profiling.trace.timeline import Turn


def shown(*, terminal: bool) -> str:
    """Of a turn that is heard, recognised and ends, and of a sentence said meanwhile."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=60, color_system=None)
    turn = Turn("c", 1, 0)

    def explain(event: TurnEnded, number: int) -> None:
        console.print(f"turn {number}: {event.transcript}")

    async def main() -> None:
        async with LiveDisplay(console, explain, lambda: "keys " * 20) as display:
            display.observe(PartialTranscript(turn, "hel"))
            await asyncio.sleep(3 * REFRESH_S)
            display.observe(UserSaid(turn, "hello"))
            display.observe(TurnEnded(turn, "hello", "", ""))
            display.say("something [happened]")
            await asyncio.sleep(3 * REFRESH_S)

    asyncio.run(main())
    return output.getvalue()


def test_a_terminal_shows_what_is_heard_and_a_line_at_the_bottom_that_is_one_line() -> None:
    text = shown(terminal=True)
    assert "you  hel \N{HORIZONTAL ELLIPSIS}" in text
    (bottom,) = {line for line in text.replace("\r", "\n").splitlines() if line.strip().startswith("keys")}
    assert bottom.rstrip().endswith("\N{HORIZONTAL ELLIPSIS}")
    assert text.index("turn 1: hello") < text.index("something [happened]")


def test_a_file_gets_what_has_ended_and_what_was_said_only() -> None:
    assert shown(terminal=False).splitlines() == ["turn 1: hello", "something [happened]"]
