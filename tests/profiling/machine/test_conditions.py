"""Load, stolen time, a drifting clock and throttling: recognised, told apart, and silent where all is quiet."""

from collections.abc import Callable
from pathlib import Path

import pytest

from profiling.machine.conditions import disturbances, look, spin_s
from tests.profiling.machine.fake_system import FakeClock, processors, written


def spinning(ns: int) -> Callable[[], int]:
    """Processor time that moves on by so much whenever it is asked for."""
    told = iter(range(0, 10_000 * ns, ns))
    return lambda: next(told)


def seen(root: Path, ticks: list[dict[str, int]], spins_ns: list[int]):
    moments = []
    for now, ns in zip(ticks, spins_ns, strict=True):
        moments.append(look(FakeClock(), processors(root, **now), spinning(ns)))
    return moments


QUIET = [{"user": 100, "idle": 900, "own": 50}, {"user": 190, "idle": 1010, "own": 135}]


@pytest.mark.parametrize(
    ("ticks", "spins_ns", "words"),
    [
        (QUIET, [1000, 1049], None),
        ([QUIET[0], {"user": 250, "idle": 950, "own": 100}], [1000, 1000], "used 50% of its processors"),
        ([QUIET[0], {"user": 200, "idle": 996, "own": 150, "steal": 4}], [1000, 1000], None),
        ([QUIET[0], {"user": 200, "idle": 980, "own": 150, "steal": 20}], [1000, 1000], "took 10% of its processor"),
        (QUIET, [1000, 1060], "6% apart"),
    ],
    ids=["quiet", "load", "little steal", "steal", "drift"],
)
def test_one_sentence_for_what_disturbs(
    tmp_path: Path, ticks: list[dict[str, int]], spins_ns: list[int], words: str | None
) -> None:
    said = disturbances(seen(tmp_path, ticks, spins_ns))
    assert len(said) == (0 if words is None else 1)
    if words:
        assert words in said[0] and said[0].endswith(".")


def test_this_process_is_no_load(tmp_path: Path) -> None:
    whole_machine = {"user": 1100, "idle": 900, "own": 1050}
    assert disturbances(seen(tmp_path, [QUIET[0], whole_machine], [1000, 1000])) == []


def test_the_load_before_is_told_with_a_load(tmp_path: Path) -> None:
    moments = seen(tmp_path, [QUIET[0], {"user": 1100, "idle": 900}], [1000, 1000])
    assert "load average before: 0.1" in disturbances(moments)[0]


def test_a_clock_that_was_slow_only_in_between_is_a_drift(tmp_path: Path) -> None:
    assert "drifted" in disturbances(seen(tmp_path, [QUIET[0], QUIET[0], QUIET[0]], [1000, 1500, 1000]))[0]


def test_throttling_by_heat_and_by_a_quota_is_counted(tmp_path: Path) -> None:
    hot = "sys__devices__system__cpu__cpu{}__thermal_throttle__core_throttle_count"
    written(tmp_path, **{hot.format(0): "3", hot.format(1): "1", "sys__fs__cgroup__cpu.stat": "nr_throttled 5\n"})
    before = look(FakeClock(), tmp_path, spinning(1000))
    assert before.throttled == 9
    written(tmp_path, **{hot.format(0): "4", "sys__fs__cgroup__cpu.stat": "nr_throttled 6\n"})
    after = look(FakeClock(), tmp_path, spinning(1000))
    assert "held back 2 times" in disturbances([before, after])[0]


def test_clocks_come_from_cpufreq_else_from_cpuinfo(tmp_path: Path) -> None:
    written(tmp_path, proc__cpuinfo="cpu MHz\t\t: 2445.406\nflags : avx2\ncpu MHz\t\t: 2000.000\n")
    assert look(FakeClock(), tmp_path, spinning(1)).mhz == (2000, 2445.406)
    written(tmp_path, sys__devices__system__cpu__cpu0__cpufreq__scaling_cur_freq="3100000\n")
    assert look(FakeClock(), tmp_path, spinning(1)).mhz == (3100, 3100)


def test_a_system_that_tells_nothing_disturbs_nothing(tmp_path: Path) -> None:
    moment = look(FakeClock(), tmp_path, spinning(1000))
    assert (moment.load, moment.ticks, moment.mhz, moment.throttled) == (None, None, None, None)
    assert disturbances([moment, moment]) == [] and disturbances([]) == []


def test_this_systems_own_files_are_read() -> None:
    assert spin_s() > 0
    assert look(FakeClock()).spin_s > 0
