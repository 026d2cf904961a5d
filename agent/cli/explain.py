"""`turnscope explain`: a run's tables, and why its time went where it went, from its folder alone."""

from pathlib import Path

import click

from agent.cli import consoles
from agent.cli.explaining import explanation_of
from agent.errors import TurnscopeError
from profiling.report.terminal import print_summary, print_turn
from profiling.run import Run, load_run
from profiling.run_evidence import load_evidence

RUNS = Path("runs")
MOST_TURNS = 50  # that are shown one by one without --all


@click.command()
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--all", "every", is_flag=True, help=f"Show every turn, also of a run of more than {MOST_TURNS}.")
def explain(run: str, every: bool) -> None:
    """Print where the time of every turn went, why, and what would change it.

    RUN is a run folder, its run.json or its trace.jsonl; without one, the newest folder under ./runs.
    """
    console, notes = consoles.output(), consoles.notes()
    loaded = load_run(newest_run(RUNS) if run == "latest" else Path(run))
    found = load_evidence(loaded.folder)
    for warning in (*loaded.warnings, *found.warnings):
        consoles.note(notes, warning)
    explanation = explanation_of(loaded.turns, loaded.info.settings if loaded.info else {}, found)
    shown = range(len(loaded.turns)) if every else _slowest(loaded)
    for place in shown:
        content = loaded.contents[place]
        turn = loaded.turns[place]
        print_turn(console, turn, place + 1, content and content.transcript, content and content.reply)
        explanation.print_turn(console, place)
    if len(shown) < len(loaded.turns):
        consoles.note(notes, f"The {len(shown)} slowest of {len(loaded.turns)} turns are shown; --all shows every one.")
    print_summary(console, loaded.turns)
    explanation.print_run(console)


def _slowest(run: Run) -> list[int]:
    """The places of the turns with the longest latencies, in their order."""
    places = sorted(range(len(run.turns)), key=lambda place: -(run.turns[place].latency_ns or 0))
    return sorted(places[:MOST_TURNS])


def newest_run(folder: Path) -> Path:
    """The run folder that was started last. Raises TurnscopeError when there is none."""
    runs = sorted((entry for entry in folder.glob("*/") if (entry / "trace.jsonl").exists()), key=lambda run: run.name)
    if not runs:
        raise TurnscopeError(
            f"There is no run under {folder}/: make one with `turnscope replay`, or name a run folder."
        )
    return runs[-1]
