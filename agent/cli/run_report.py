"""What a run says of itself: who talks, its turns, and at its end what came of it and where it lies."""

import shutil
import sys
from pathlib import Path

from rich.console import Console

from agent.cli import consoles
from agent.cli.explaining import explanation_of
from agent.cli.live import printable
from agent.cli.session import Session
from agent.devices import CPU
from agent.engine_choice import Places
from agent.engines import Engines
from agent.events import TurnEnded
from profiling.report.terminal import print_summary, print_turn
from profiling.run_evidence import load_evidence

_PLACES = {CPU: "the CPU", "gpu": "the GPU"}


def who_talks(engines: Engines, places: Places) -> str:
    on_a_gpu = any(place not in (None, CPU) for place in (places.asr, places.llm, places.tts))

    def on(place: str | None) -> str:
        return f" on {_PLACES.get(place, place)}" if on_a_gpu and place else ""

    return (
        f"Hearing with {printable(engines.asr.model)}{on(places.asr)}, "
        f"thinking with {printable(engines.llm.model)}{on(places.llm)}, "
        f"speaking with {printable(engines.tts.model)}{on(places.tts)}."
    )


def print_ended(console: Console, event: TurnEnded, number: int) -> None:
    """All that is known of a turn."""
    print_turn(console, event.turn, number, event.transcript, event.heard)


def print_end(console: Console, notes: Console, session: Session, *, measured: bool, expected: int | None) -> None:
    """`expected` turns were to be heard, if that is known; `measured` says that the run holds what explains it."""
    writer = session.writer
    if session.turns and measured:
        explanation = explanation_of(session.turns, writer.info.settings, load_evidence(writer.folder))
        print_summary(console, session.turns, explanation.impossible)
        explanation.print_run(console)
    elif session.turns:
        print_summary(console, session.turns)
    if session.problem:
        consoles.note(notes, session.problem)
    if session.complete and expected is not None and len(session.turns) != expected:
        turns = "turn" if expected == 1 else "turns"
        consoles.note(notes, f"Expected {expected} {turns}, heard {len(session.turns)}.")
    state = "" if session.complete else "Stopped early; what was recorded is kept. "
    for line in (
        f"\n{state}Run folder: {writer.folder}",
        f"  listen    {writer.wav_path}  (you left, agent right)",
        f"  explain   {command()} explain {writer.folder}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def command() -> str:
    """How this program was called, as one would type it again."""
    if shutil.which("turnscope"):
        return "turnscope"
    return "python -m agent.cli" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]
