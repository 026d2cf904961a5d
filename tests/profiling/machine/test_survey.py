"""A real survey of this machine, tiny; and its place in a cache."""

from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from profiling.environment import Machine
from profiling.machine.cached import age_s, load_survey, save_survey, survey_file
from profiling.machine.survey import Effort, Survey, survey
from profiling.report.machine import facts, rate, tables
from profiling.trace.clock import SystemClock
from tests.profiling.machine.fake_system import MIB

TINY = Effort(
    rounds=3,
    repetitions=2,
    each_s=0.002,
    width=128,
    memory_bytes=64 * MIB,
    smallest_bytes=MIB,
    probe_s=0.05,
    probe_bytes=12 * MIB,
    calls=20,
)


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def found(told: list[str]) -> Survey:
    return survey(SystemClock(), told.append, effort=TINY, threads=(1, 2))


def test_it_has_every_ceiling_with_its_bounds_and_kernel(found: Survey) -> None:
    for threads in (1, 2):
        names = {(c.name, c.kernel.split()[0]) for c in found.ceilings if c.threads == threads and c.unit == "FLOP/s"}
        types = {(dtype, "PyTorch") for dtype in ("float32", "bfloat16", "float16")}
        assert names == {("float32", "numpy"), *types}
    for ceiling in found.ceilings:
        assert 0 < ceiling.interval.low <= ceiling.interval.value <= ceiling.interval.high
        assert ceiling.values and ceiling.device == "cpu" and ceiling.kernel
    assert {overhead.name for overhead in found.overheads} == {"numpy call", "PyTorch call"}
    assert all(overhead.each_s.value > 0 for overhead in found.overheads)


def test_it_probes_before_and_after_and_looks_at_the_machine_throughout(found: Survey) -> None:
    threads = [{rates.threads for rates in reading.rates} for reading in found.probes]
    assert all(seen <= {count} for seen, count in zip(threads, (1, 2, 1, 2), strict=True))
    assert found.probes[0].at_ns < found.conditions[2].at_ns < found.probes[-1].at_ns
    assert found.took_s > 0


def test_reads_that_are_not_beyond_the_cache_are_said(found: Survey) -> None:
    assert any("did not allow" in warning for warning in found.warnings)


def test_progress_is_told_in_order(found: Survey, told: list[str]) -> None:
    steps = list(dict.fromkeys(told))
    assert steps[:2] == ["looking at the machine", "probing what later runs are compared with"]
    assert steps[2:5] == [
        "reading memory with 1 thread",
        "multiplying float32 in numpy with 1 thread",
        "reading memory with 2 threads",
    ]


def test_it_is_kept_for_this_machine_alone(found: Survey, tmp_path: Path) -> None:
    machine = found.machine
    assert load_survey(tmp_path, machine, {}) is None
    path = save_survey(tmp_path / "new", found)
    assert path.parent == tmp_path / "new" and [*path.parent.iterdir()] == [path]
    assert load_survey(tmp_path / "new", machine, {}) == found
    assert load_survey(tmp_path / "new", machine, {"cuda:0": "a GPU"}) is None
    other = Machine(platform=machine.platform, cpu=machine.cpu, cores=machine.cores, usable_cores=99)
    assert load_survey(tmp_path / "new", other, {}) is None


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', "[]"])
def test_a_damaged_file_is_as_good_as_none(found: Survey, tmp_path: Path, text: str) -> None:
    survey_file(tmp_path, found.machine, {}).write_text(text)
    assert load_survey(tmp_path, found.machine, {}) is None


def test_a_file_of_another_version_is_as_good_as_none(found: Survey, tmp_path: Path) -> None:
    save_survey(tmp_path, found.model_copy(update={"format": 99}))
    assert load_survey(tmp_path, found.machine, {}) is None


def test_age_counts_from_when_it_was_made(found: Survey) -> None:
    assert age_s(found, found.made + timedelta(minutes=3)) == 180
    assert age_s(found, found.made - timedelta(minutes=3)) == 0


def test_the_tables_show_every_ceiling(found: Survey) -> None:
    console = Console(width=160, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        for table in tables(found):
            console.print(table)
    text = captured.get()
    for ceiling in found.ceilings:
        assert rate(ceiling.interval.value, ceiling.unit) in text
    assert "numpy call" in text and "PyTorch call" in text
    assert found.machine.cpu in facts(found)[0]
