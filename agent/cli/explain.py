"""`turnscope explain`: a run's tables, and why its time went where it went, from its folder alone."""

from pathlib import Path

import click
from rich.console import Console

from agent.cli import consoles
from agent.cli.explaining import explanation_of
from agent.cli.live import printable
from agent.errors import TurnscopeError
from profiling.compare import are_one, beside, differences, obstacle
from profiling.figures import Figures
from profiling.report.explanation import Explanation
from profiling.report.terminal import print_summary, print_turn
from profiling.run import Run, load_run
from profiling.run_evidence import RunEvidence, load_evidence

RUNS = Path("runs")
MOST_TURNS = 50  # that are shown one by one without --all


@click.command()
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--all", "every", is_flag=True, help=f"Show every turn, also of a run of more than {MOST_TURNS}.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="OTHER_RUN",
    help="An earlier run of the same language model, on another machine or with its weights in another format: also "
    "say what only the two together show (a new machine but the same speed; quantised but no faster).",
)
def explain(run: str, every: bool, against: Path | None) -> None:
    """Print where the time of every turn went, why, and what would change it.

    RUN is a run folder, its run.json or its trace.jsonl; without one, the newest folder under ./runs.
    """
    console, notes = consoles.output(), consoles.notes()
    loaded = load_run(newest_run(RUNS) if run == "latest" else Path(run))
    found = load_evidence(loaded.folder)
    other = _other(loaded, against) if against is not None else None
    for warning in (*loaded.warnings, *found.warnings):
        consoles.note(notes, warning)
    calibration = found.evidence.calibration
    for warning in calibration.warnings if calibration else ():
        consoles.note(notes, f"Of the calibration: {warning}")
    before = _before(loaded, found, other, notes) if other else None
    explanation = _explanation(loaded, found)
    shown = range(len(loaded.turns)) if every else _slowest(loaded)
    for place in shown:
        content = loaded.contents[place]
        turn = loaded.turns[place]
        print_turn(console, turn, place + 1, content and content.transcript, content and content.reply)
        explanation.print_turn(console, place)
    if len(shown) < len(loaded.turns):
        consoles.note(notes, f"The {len(shown)} slowest of {len(loaded.turns)} turns are shown; --all shows every one.")
    print_summary(console, loaded.turns, explanation.impossible)
    explanation.print_run(console, before)
    if before:
        console.print()
        console.print(beside(explanation.figures(), before), highlight=False, markup=False)


def _other(run: Run, against: Path) -> Run:
    """Raises RunUnreadable, and TurnscopeError when both are the same."""
    other = load_run(against)
    if are_one(run, other):
        raise TurnscopeError(f"{against} is the very run that is explained: give another one to --against.")
    return other


def _before(run: Run, found: RunEvidence, other: Run, notes: Console) -> Figures | None:
    """What the language model of the other run reached; None where the two cannot be compared. What differs, and why
    they cannot, is noted."""
    found_before = load_evidence(other.folder)
    for warning in (*other.warnings, *found_before.warnings):
        consoles.note(notes, f"Of the run before: {warning}")
    books = found.evidence.work_book, found_before.evidence.work_book
    unlike = "; ".join(differences(run, other, *books))
    told = f"Not as in the run before: {unlike}." if unlike else "Models, machine and threads are as in the run before."
    consoles.note(notes, printable(told))
    if why := obstacle(*books):
        consoles.note(notes, f"{why} So the two are not compared.")
        return None
    return _explanation(other, found_before).figures()


def _explanation(run: Run, found: RunEvidence) -> Explanation:
    return explanation_of(run.turns, run.info.settings if run.info else {}, found, run.info)


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
