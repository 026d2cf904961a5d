"""A step of the wall clock is in a run's durations only where these were read from that clock."""

from pathlib import Path

import pytest

from agent.cli.explaining import explanation_of, surroundings_of
from profiling.clock_step import are_times_of_day, clock_stepped_s
from profiling.evidence import Evidence
from profiling.plausibility import Cause
from profiling.run import Run, RunWriter, load_run
from profiling.run_evidence import RunEvidence
from profiling.trace.clock import Anchor
from tests.profiling.predictions.simulated import BOOK, CEILINGS, Simulated

DAY_NS = 1_772_000_000 * 10**9
EVIDENCE = RunEvidence(Evidence(BOOK, None, CEILINGS))


class SteppedClock:
    def __init__(self) -> None:
        self.monotonic_ns, self.offset_ns = 10**9, DAY_NS

    def now_ns(self) -> int:
        return self.monotonic_ns

    def wall_ns(self) -> int:
        return self.monotonic_ns + self.offset_ns


def run_of(folder: Path, stepped_s: float, *, times_of_day: bool) -> Run:
    """Six turns, the fourth of them with a prompt that was read too fast, in a run whose wall clock was set."""
    clock = SteppedClock()
    writer = RunWriter(folder, "run", clock)
    world = Simulated(2, now_ns=clock.wall_ns() if times_of_day else clock.now_ns())
    for index in range(6):
        writer.write_turn(world.turn(index, prefill_s=0.005 if index == 3 else None))
    clock.monotonic_ns += 60 * 10**9
    clock.offset_ns += round(stepped_s * 1e9)
    writer.close(complete=True)
    return load_run(writer.folder)


def cause_in(run: Run) -> Cause:
    ((place, steps),) = explanation_of(run.turns, {}, EVIDENCE, run.info).impossible.by_turn.items()
    (one,) = steps.values()
    assert place == 3
    return one.cause


@pytest.mark.parametrize("stepped_s", [2.0, -2.0])
def test_turnscopes_own_turns_are_on_the_monotonic_clock_which_is_never_set(tmp_path: Path, stepped_s: float) -> None:
    run = run_of(tmp_path, stepped_s, times_of_day=False)
    assert run.info is not None
    assert clock_stepped_s(run.turns, run.info.start, run.info.end) == 0
    assert cause_in(run) is Cause.PREFIX_CACHE


def test_a_clock_that_was_set_back_makes_times_of_day_impossible(tmp_path: Path) -> None:
    run = run_of(tmp_path, -2.0, times_of_day=True)
    assert surroundings_of(run.turns, EVIDENCE, run.info).clock_stepped_s == -2.0
    assert cause_in(run) is Cause.CLOCK_STEP


@pytest.mark.parametrize("stepped_s", [2.0, 0.0, -0.01])
def test_a_step_that_cannot_have_made_it_is_not_named(tmp_path: Path, stepped_s: float) -> None:
    assert cause_in(run_of(tmp_path, stepped_s, times_of_day=True)) is Cause.PREFIX_CACHE


def test_without_a_last_anchor_turns_or_run_json_no_step_is_known() -> None:
    turns, start = Simulated(2, now_ns=DAY_NS).turns(1), Anchor(10**9, DAY_NS)
    assert are_times_of_day(turns, start) and not are_times_of_day([], start)
    assert clock_stepped_s(turns, start, None) == 0
    assert clock_stepped_s([], start, Anchor(2 * 10**9, DAY_NS)) == 0
    assert surroundings_of(turns, EVIDENCE, None).clock_stepped_s == 0
