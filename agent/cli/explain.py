"""`turnscope explain`: a run's tables, from its folder alone."""

from pathlib import Path

import click

from agent.cli import consoles
from agent.errors import TurnscopeError
from profiling.report.terminal import print_summary, print_turn
from profiling.run import load_run

RUNS = Path("runs")


@click.command()
@click.argument("run", default="latest", metavar="[RUN]")
def explain(run: str) -> None:
    """Print where the time of every turn went.

    RUN is a run folder, its run.json or its trace.jsonl; without one, the newest folder under ./runs.
    """
    console, notes = consoles.output(), consoles.notes()
    loaded = load_run(newest_run(RUNS) if run == "latest" else Path(run))
    for warning in loaded.warnings:
        consoles.note(notes, warning)
    for number, (turn, content) in enumerate(zip(loaded.turns, loaded.contents, strict=True), 1):
        print_turn(console, turn, number, content and content.transcript, content and content.reply)
    print_summary(console, loaded.turns)


def newest_run(folder: Path) -> Path:
    """The run folder that was started last. Raises TurnscopeError when there is none."""
    runs = sorted((entry for entry in folder.glob("*/") if (entry / "trace.jsonl").exists()), key=lambda run: run.name)
    if not runs:
        raise TurnscopeError(
            f"There is no run under {folder}/: make one with `turnscope replay`, or name a run folder."
        )
    return runs[-1]
