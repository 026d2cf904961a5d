"""What a step took beside the least that its work needs."""

import pytest

from profiling.operations import FIRST_PATCH, KV_BYTES, PREFILL, SETUP, TOKEN, TOKENS
from profiling.readings import least_time, readings
from profiling.roofline import Term
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.work_book import WorkBook
from profiling.workload import Work
from tests.profiling.predictions.simulated import ARITHMETIC, BOOK, CEILINGS, WEIGHT_BYTES, Simulated


def test_each_operation_of_a_turn_has_its_work() -> None:
    found = {one.operation: one for one in readings(Simulated(0).turn(), BOOK, CEILINGS)}
    assert found[PREFILL].units == {TOKENS: 500} and found[PREFILL].least is not None
    assert found[PREFILL].least.value == pytest.approx(2 * 3.6e9 * 500 / 31.8e12)
    assert found[SETUP].least is None and found[FIRST_PATCH].count == 1
    token = found[TOKEN]
    assert token.count == 11 and token.steps == 11  # the first token read nothing of the KV cache in this simulation
    assert token.least is not None
    assert token.least.value == pytest.approx(11 * (WEIGHT_BYTES + token.units[KV_BYTES]) / 905e9)
    assert token.least.low < token.least.value < token.least.high


def test_tokens_that_were_chosen_without_an_evaluation_are_left_out() -> None:
    turn = Turn("c", 1, 0)
    times = {v.START_TIMES_NS: [0, 10, 20], v.END_TIMES_NS: [1, 20, 30], v.LLM_KV_BYTES: [0, 500, 700]}
    turn.add(Stage.LLM_DECODE, 0, 30, attributes=times)
    (found,) = readings(turn, BOOK, CEILINGS)
    assert found.count == 2 and found.units == {KV_BYTES: 600} and found.duration_s == pytest.approx(20e-9)


def test_loops_without_their_passes_are_no_readings_and_other_steps_none() -> None:
    turn = Turn("c", 1, 0)
    turn.add(Stage.LLM_DECODE, 0, 30)
    turn.add(Stage.HOST, 0, 30)
    turn.add(Stage.ENDPOINT_WAIT, 0, 30)
    assert readings(turn, BOOK, CEILINGS) == []


def test_without_a_book_or_ceilings_there_is_no_least_time() -> None:
    turn = Simulated(0).turn()
    assert all(one.least is None for one in readings(turn, WorkBook(), CEILINGS))
    assert all(one.least is None for one in readings(turn, BOOK, {}))


def test_only_the_ceilings_that_bound_the_work_are_needed() -> None:
    only = {ARITHMETIC: CEILINGS[ARITHMETIC]}
    assert least_time([Term(Work(0, 1e12), ARITHMETIC)], only) is not None
    assert least_time([Term(Work(1, 1e12), ARITHMETIC)], only) is None
    assert least_time([], only) is None
