"""The impossible is refused, and the likeliest cause named."""

import pytest

from profiling.interval import Interval
from profiling.operations import PATCH, PREFILL, TOKEN
from profiling.plausibility import Cause, Impossible, Surroundings, impossible, impossible_steps
from profiling.readings import Reading, least_time, readings
from profiling.roofline import READ, Term
from profiling.trace.vocabulary import Stage
from profiling.workload import Work
from tests.profiling.predictions.simulated import BOOK, Simulated
from tests.profiling.predictions.simulated import CEILINGS as SIMULATED

CEILINGS = {
    READ: Interval(value=250e9, low=245e9, high=255e9, n=6),
    "fp16": Interval(value=31.8e12, low=31.5e12, high=32.0e12, n=6),
}


def reading(operation: str, duration_s: float, work: Work, **more: object) -> Reading:
    terms = (Term(work, "fp16"),)
    return Reading(operation, duration_s, {}, terms=terms, least=least_time(terms, CEILINGS), **more)  # type: ignore[arg-type]


def refused(one: Reading, surroundings: Surroundings | None = None) -> Impossible:
    found = impossible(one, CEILINGS, surroundings)
    assert found is not None
    return found


def test_the_articles_reading_was_a_prefix_cache() -> None:
    """91,240 tokens per second on a model of 3.6 G parameters: 660 TFLOP/s where the GPU does 31.8."""
    tokens = 1024
    found = refused(reading(PREFILL, tokens / 91_240, Work(4.6e9, 2 * 3.6e9 * tokens)))
    assert found.cause is Cause.PREFIX_CACHE
    assert found.cached_fraction == pytest.approx(0.95, abs=0.005)
    assert found.times_too_fast == pytest.approx(657 / 31.8, rel=0.01)  # "twenty times what the GPU can do"
    assert "prefix cache answered about 95%" in found.sentence and "20.7 times" in found.sentence


def test_the_articles_other_readings_can_be_true() -> None:
    for parameters, tokens_per_s in ((1.4e9, 8730), (3.6e9, 3438), (3.6e9, 3129)):
        assert impossible(reading(PREFILL, 1024 / tokens_per_s, Work(4.6e9, 2 * parameters * 1024)), CEILINGS) is None
    assert impossible(reading(TOKEN, 1 / 52.7, Work(4.32 * 2**30, 7.2e9)), CEILINGS) is None


def test_the_upper_bound_of_the_ceiling_decides() -> None:
    work = Work(0, 31.8e12)
    assert impossible(reading(PREFILL, 31.8 / 31.9, work), CEILINGS) is None
    assert impossible(reading(PREFILL, 31.8 / 32.1, work), CEILINGS) is not None


def test_work_that_was_only_asked_for_is_missing_synchronisation() -> None:
    one = reading(TOKEN, 100 * 12e-6, Work(100 * 4e9, 100 * 7e9), steps=100, device="cuda:0")
    found = refused(one, Surroundings(call_s={"cuda:0": 6e-6}))
    assert found.cause is Cause.NO_SYNCHRONISATION and found.cached_fraction is None
    assert "synchronise" in found.sentence
    assert refused(one).cause is Cause.WRONG_COUNT  # the cost of a call is not known


def test_weights_smaller_than_the_cache_are_read_from_it() -> None:
    one = reading(TOKEN, 50 * 4e-5, Work(50 * 20e6, 50 * 2e7), steps=50)
    assert refused(one, Surroundings(last_level_cache_bytes=32e6)).cause is Cause.IN_CACHE
    assert refused(one, Surroundings(last_level_cache_bytes=16e6)).cause is Cause.WRONG_COUNT


def test_a_clock_that_was_set_back_by_more_than_is_missing() -> None:
    one = reading(PREFILL, 0.001, Work(0, 31.8e12))
    assert refused(one, Surroundings(clock_stepped_s=-2.0)).cause is Cause.CLOCK_STEP
    assert refused(one, Surroundings(clock_stepped_s=-0.5)).cause is Cause.PREFIX_CACHE
    assert refused(one, Surroundings(clock_stepped_s=2.0)).cause is Cause.PREFIX_CACHE


def test_tokens_faster_than_their_weights_were_counted_wrongly() -> None:
    found = refused(reading(TOKEN, 0.1, Work(100 * 4e9, 100 * 7e9), count=100))
    assert found.cause is Cause.WRONG_COUNT and found.share == pytest.approx(0.1 / (400 / 250))
    assert "at most 6% of the 100 counted" in found.sentence


def test_no_time_at_all_is_told_too() -> None:
    found = refused(reading(PATCH, 0.0, Work(1e9, 1e9)))
    assert found.share == 0 and "0 ms" in found.sentence and found.sentence.startswith("Impossible")


def test_what_nothing_is_known_against_stands() -> None:
    unknown = Reading(PREFILL, 0.0, {}, terms=(Term(Work(0, 1e15), "int4"),), least=None)
    assert least_time(unknown.terms, CEILINGS) is None
    assert impossible(unknown, CEILINGS) is None


def test_a_patch_that_was_too_fast_was_counted_wrongly_as_a_patch() -> None:
    assert "a wrong patch count" in refused(reading(PATCH, 0.01, Work(0, 31.8e12))).sentence


def test_the_impossible_steps_of_a_turn_are_told_by_their_index() -> None:
    turn = Simulated(1).turn(prefill_s=0.005)
    (step,) = impossible_steps(readings(turn, BOOK, SIMULATED), SIMULATED)
    assert turn.steps[step].stage is Stage.LLM_PREFILL
