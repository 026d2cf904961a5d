"""`turnscope explain` of a run with a prompt that was read faster than the machine can: left out, told once, marked."""

from pathlib import Path

from click.testing import CliRunner

from agent.cli.explain import explain
from profiling.calibration import CPU, Rates, ceiling_key
from profiling.run import RunWriter
from profiling.run_evidence import keep_evidence
from profiling.trace.clock import SystemClock
from profiling.trace.timeline import Turn
from profiling.work_book import WorkBook
from tests.profiling.predictions.simulated import ARITHMETIC, BOOK, CEILINGS, READ, Simulated

KEYS = {name: ceiling_key(name, CPU, 1) for name in CEILINGS}


def book() -> WorkBook:
    """The simulated one, its ceilings named as for one thread of the processor."""
    named = {"rate": KEYS[ARITHMETIC], "read": KEYS[READ]}
    operations = {
        name: work.model_copy(update={"terms": tuple(term.model_copy(update=named) for term in work.terms)})
        for name, work in BOOK.operations.items()
    }
    return BOOK.model_copy(update={"operations": operations})


def explained(folder: Path, turns: list[Turn], world: Simulated) -> str:
    rates = [
        Rates(name=name, unit="", device=CPU, threads=1, values=(one.low, one.value, one.value, one.value, one.high))
        for name, one in CEILINGS.items()
    ]
    writer = RunWriter(folder, "run", SystemClock())
    keep_evidence(writer.folder, book(), world.calibration(ceilings=tuple(rates)), None)
    for turn in turns:
        writer.write_turn(turn)
    writer.close(complete=True)
    told = CliRunner().invoke(explain, [str(writer.folder)], env={"COLUMNS": "100"})
    assert told.exit_code == 0, told.output
    return told.stdout


def median_row(text: str) -> str:
    (row,) = [line for line in text.splitlines() if line.startswith("  median ")]
    return row


def test_a_prefix_cache_hit_is_in_no_median_told_once_and_marked_in_its_turn(tmp_path: Path) -> None:
    world = Simulated(3)
    turns = world.turns(7)
    hit = world.turn(7, prefill_s=0.005)
    with_it, without = explained(tmp_path / "a", [*turns, hit], world), explained(tmp_path / "b", turns, world)
    assert median_row(with_it) == median_row(without) and "n = 7" in median_row(with_it)
    assert with_it.count("impossible: prefix cache") == 1 and "impossible" not in without
    summary = " ".join(with_it.split(" Summary ")[1].split("Predicted and measured")[0].split())
    assert summary.count("1 of 8 turns has an impossible step and is left out of the medians") == 1
    assert summary.count("prefill in 1 turn (likeliest cause: a prefix cache answered about 9") == 1
