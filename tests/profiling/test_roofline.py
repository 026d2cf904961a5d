"""The roofline's terms, with figures of the reference."""

import pytest

from profiling.roofline import BANDWIDTH, COMPUTE, Term, intensity, ridge, ridge_batch
from profiling.workload import Work

CEILINGS = {"read": 100.0, "fp32": 1000.0, "read_cached": 400.0}


def test_the_slower_of_reading_and_computing_decides() -> None:
    reading, computing = Term(Work(200, 100), "fp32"), Term(Work(200, 5000), "fp32")
    assert (reading.reading_s(CEILINGS), reading.computing_s(CEILINGS)) == (2.0, 0.1)
    assert (reading.seconds(CEILINGS), reading.bound(CEILINGS)) == (2.0, BANDWIDTH)
    assert (computing.seconds(CEILINGS), computing.bound(CEILINGS)) == (5.0, COMPUTE)


def test_a_term_may_read_from_elsewhere() -> None:
    assert Term(Work(200, 0), "fp32", "read_cached").seconds(CEILINGS) == 0.5


def test_at_the_ridge_both_take_the_same_time() -> None:
    term = Term(Work(100, 1000), "fp32")
    assert term.reading_s(CEILINGS) == term.computing_s(CEILINGS) == term.seconds(CEILINGS)
    assert ridge(CEILINGS["fp32"], CEILINGS["read"]) == 10 == term.work.flops / term.work.bytes


def test_work_of_one_kind_needs_no_ceiling_of_the_other() -> None:
    assert Term(Work(200, 0), "unmeasured").seconds({"read": 100.0}) == 2.0
    assert Term(Work(0, 2000), "fp32").seconds({"fp32": 1000.0}) == 2.0
    assert Term(Work(), "unmeasured").seconds({}) == 0.0


def test_a_ceiling_that_was_not_measured_is_no_number() -> None:
    with pytest.raises(KeyError, match="int8"):
        Term(Work(1, 1), "int8").seconds({"read": 100.0})


def test_several_times_the_work_takes_several_times_as_long() -> None:
    term = Term(Work(200, 100), "fp32", "read_cached")
    assert (term * 3).seconds(CEILINGS) == pytest.approx(3 * term.seconds(CEILINGS))
    assert ((term * 3).rate, (term * 3).read) == ("fp32", "read_cached")


def test_the_references_intensity_and_ridges() -> None:
    assert intensity(1, 4.8) == pytest.approx(3.3, abs=0.05)
    assert ridge(210e12, 1792e9) == pytest.approx(117, abs=0.5)
    assert ridge_batch(31.8e12, 250e9, 16) == pytest.approx(130, rel=0.03)
    assert ridge_batch(31.8e12, 250e9, 8) == pytest.approx(64, abs=1)


def test_at_the_ridge_batch_the_intensity_is_the_ridge() -> None:
    for bits in (4.5, 8.5, 16):
        assert intensity(ridge_batch(31.8e12, 250e9, bits), bits) == pytest.approx(ridge(31.8e12, 250e9))
