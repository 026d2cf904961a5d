"""Changes of a language model whose run does not tell all."""

from dataclasses import replace

import pytest

from profiling.changes.thinking import ThinkingTokens
from profiling.changes.weight_format import WeightFormat
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.what_if import Row, what_if
from tests.profiling.simulated_runs import Pipeline, changed, evidence, run

BASE = Pipeline()


def row(turns: list[Turn], pipeline: Pipeline, change: WeightFormat, stage: Stage) -> Row:
    found = what_if(turns, [change], evidence(pipeline)).rows
    return next(row for row in found if row.stage is stage)


def test_arithmetic_of_a_token_in_a_format_that_was_not_measured_stays_or_goes_along_with_the_bytes() -> None:
    """At 50 GFLOP/s a token takes 40 ms of arithmetic, 14 ms of reading and 4 ms above that. Q2_K has 2.625 bits of
    4.5, and the vectors stay."""
    slow = changed(BASE, flops=50e9)
    factor = (1e9 * 2.625 / 8 + 4e6) / (1e9 * 4.5 / 8 + 4e6)
    token = row(run(slow), slow, WeightFormat("Q2_K"), Stage.LLM_FIRST_PHRASE)
    assert token.after.value == pytest.approx(token.before)
    assert token.after.low < 1.02 * 8 * (0.04 * factor + 0.004), "in some draws it goes along"
    prompt = row(run(slow), slow, WeightFormat("Q2_K"), Stage.LLM_PREFILL)
    assert prompt.after.low == prompt.after.high == pytest.approx(prompt.before)


def test_a_larger_format_may_make_the_arithmetic_of_a_token_slower() -> None:
    """Reading 8.5 bits takes 26.6 ms, less than the arithmetic."""
    slow = changed(BASE, flops=50e9)
    token = row(run(slow), slow, WeightFormat("Q8_0"), Stage.LLM_FIRST_PHRASE)
    assert token.after.value == pytest.approx(token.before)
    assert token.after.high > 1.5 * token.before


def with_a_token_that_was_only_chosen(turn: Turn) -> Turn:
    """The first of a reply is: the evaluation of the prompt has told it."""
    steps = list(turn.steps)
    place = next(step.index for step in steps if step.stage is Stage.LLM_FIRST_PHRASE)
    known = steps[place].attributes
    names = (v.START_TIMES_NS, v.END_TIMES_NS, v.LLM_KV_BYTES)
    steps[place] = replace(steps[place], attributes={**known, **{name: (0, *known[name]) for name in names}})
    return replace(turn, steps=steps)


def test_a_token_that_was_only_chosen_is_no_pattern_for_those_that_thinking_adds() -> None:
    plain = what_if(run(BASE), [ThinkingTokens(40)], evidence(BASE)).latency
    turns = [with_a_token_that_was_only_chosen(turn) for turn in run(BASE)]
    assert what_if(turns, [ThinkingTokens(40)], evidence(BASE)).latency.after.value == pytest.approx(
        plain.after.value, abs=1e-6
    )
