"""The ceilings that hold for a run, from the survey's and the run's own probes."""

from datetime import UTC, datetime

import pytest

from profiling.calibration import Rates
from profiling.environment import Machine
from profiling.interval import Interval
from profiling.machine.drift import drifting_rates
from profiling.machine.measured import MeasuredCeiling
from profiling.machine.pooling import ceilings_for_run, threads_to_probe
from profiling.machine.probe import ProbeReading
from profiling.machine.survey import Survey


def ceiling(
    name: str, value: float, *, threads: int = 2, device: str = "cpu", kernel: str = "numpy"
) -> MeasuredCeiling:
    unit = "B/s" if name == "read" else "FLOP/s"
    interval = Interval(value=value, low=value * 0.95, high=value * 1.05, n=10)
    return MeasuredCeiling(
        name=name, unit=unit, device=device, threads=threads, values=(value,), interval=interval, kernel=kernel
    )


def reading(read: float, flops: float, *, threads: int = 2, device: str = "cpu") -> ProbeReading:
    rates = tuple(
        Rates(name=name, unit=unit, device=device, threads=threads, values=(value,) * 8)
        for name, unit, value in (("read", "B/s", read), ("float32", "FLOP/s", flops))
    )
    return ProbeReading(at_ns=0, took_s=0.4, rates=rates)


SURVEY = Survey(
    made=datetime.now(UTC),
    machine=Machine(platform="p", cpu="c", cores=2, usable_cores=2),
    ceilings=(
        ceiling("read", 12e9, threads=1),
        ceiling("read", 20e9),
        ceiling("float32", 90e9),
        ceiling("float32", 100e9, kernel="PyTorch"),
        ceiling("Q8_0", 60e9, kernel="llama.cpp"),
    ),
    probes=(reading(20e9, 50e9),),
)


def test_without_probes_the_survey_holds_as_it_is() -> None:
    found = ceilings_for_run(SURVEY)
    assert set(found) == {"read", "float32", "Q8_0"}
    assert found["read"] == SURVEY.ceilings[1].interval
    assert found["float32"].value == 100e9  # the fastest library's


def test_probes_as_in_the_survey_change_no_value() -> None:
    found = ceilings_for_run(SURVEY, [reading(20e9, 50e9)])
    assert found["read"].value == 20e9 and found["read"].low == pytest.approx(19e9)


def test_a_slower_run_scales_reading_by_reading_and_the_rest_by_the_product() -> None:
    found = ceilings_for_run(SURVEY, [reading(10e9, 45e9)])
    assert found["read"].value == pytest.approx(10e9) and found["read"].high == pytest.approx(10.5e9)
    assert found["float32"].value == pytest.approx(90e9)
    assert found["Q8_0"].value == pytest.approx(54e9) and found["Q8_0"].low == pytest.approx(0.95 * 54e9)


def test_the_drift_between_the_runs_probes_widens_the_interval() -> None:
    found = ceilings_for_run(SURVEY, [reading(10e9, 50e9), reading(20e9, 50e9), reading(26e9, 50e9)])["read"]
    assert found.value == pytest.approx(20e9)
    assert (found.low, found.high) == (pytest.approx(9.5e9), pytest.approx(27.3e9))
    assert found.n == 10 + 24


def test_the_surveys_own_drift_widens_it_too() -> None:
    drifted = SURVEY.model_copy(update={"probes": (reading(10e9, 50e9), reading(20e9, 50e9))})
    found = ceilings_for_run(drifted, [reading(15e9, 50e9)])["read"]
    assert found.value == pytest.approx(20e9)
    assert (found.low, found.high) == (pytest.approx(0.95 * 15e9), pytest.approx(1.05 * 30e9))


def test_probes_with_other_threads_or_on_another_device_scale_nothing() -> None:
    others = [reading(5e9, 5e9, threads=1), reading(5e9, 5e9, device="cuda:0")]
    assert ceilings_for_run(SURVEY, others) == ceilings_for_run(SURVEY)


@pytest.mark.parametrize(("threads", "value"), [(1, 12e9), (2, 20e9), (8, 20e9), (None, 20e9)])
def test_the_number_of_threads_is_the_nearest_above(threads: int | None, value: float) -> None:
    assert ceilings_for_run(SURVEY, threads=threads)["read"].value == value


@pytest.mark.parametrize(("threads", "probed"), [(1, 1), (2, 4), (4, 4), (9, 4), (None, 4)])
def test_a_run_probes_with_threads_that_the_survey_probed_with(threads: int | None, probed: int) -> None:
    survey = SURVEY.model_copy(update={"probes": (reading(1, 1, threads=1), reading(1, 1, threads=4))})
    assert threads_to_probe(survey, threads) == probed
    assert threads_to_probe(survey, threads, device="cuda:0") == 1


def test_a_device_that_was_not_surveyed_has_no_ceilings() -> None:
    assert ceilings_for_run(SURVEY, device="cuda:0") == {}


def test_an_engines_own_ceiling_takes_the_place_of_its_older_one() -> None:
    more = SURVEY.with_ceilings([ceiling("Q8_0", 70e9, kernel="llama.cpp"), ceiling("Q4_0", 40e9, kernel="llama.cpp")])
    assert len(more.ceilings) == len(SURVEY.ceilings) + 1
    found = ceilings_for_run(more)
    assert (found["Q8_0"].value, found["Q4_0"].value, found["float32"].value) == (70e9, 40e9, 100e9)


def test_rates_far_apart_are_said_and_close_ones_are_not() -> None:
    assert drifting_rates([reading(20e9, 50e9), reading(22e9, 50e9)]) == []
    (sentence,) = drifting_rates([reading(26e9, 50e9), reading(58e9, 52e9)])
    assert "26.0 to 58.0 GB/s" in sentence
