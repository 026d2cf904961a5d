"""Events as servers may send them, well formed or not."""

from typing import Any

import pytest

from agent.llm.http_chunk import Chunk, Figures
from profiling.trace import vocabulary as v

NOTHING = Chunk("", "", None, Figures())


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"choices": []},
        {"choices": None, "usage": None, "timings": None, "metrics": None},
        {"choices": ["x"]},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [{"delta": {"role": "assistant", "content": None}}], "usage": 7},
        {"choices": [{"delta": {"content": 3, "reasoning": ["x"]}, "finish_reason": 1}]},
        {"usage": {"prompt_tokens": "20", "completion_tokens": True, "prompt_tokens_details": 3}},
        {"usage": {"prompt_tokens": 10**30, "completion_tokens": 10**400}, "timings": {"prompt_ms": 10**400}},
        {"timings": {"prompt_ms": 1e308, "predicted_ms": float("inf")}},
        {"timings": {"prompt_ms": "3", "predicted_ms": float("nan"), "cache_n": -1, "prompt_n": 1.5}},
    ],
)
def test_what_is_absent_or_of_another_type_says_nothing(data: dict[str, Any]) -> None:
    assert Chunk.of(data) == NOTHING


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_both_names_of_thought(name: str) -> None:
    assert Chunk.of({"choices": [{"delta": {name: "hm"}}]}).thought == "hm"


def test_a_text_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "image"}, 7, {"text": "lo."}]
    assert Chunk.of({"choices": [{"delta": {"content": parts}}]}).content == "Hello."


@pytest.mark.parametrize(
    ("said", "complete"),
    [
        (Figures(prompt_tokens=20, cached_tokens=16), (20, 16, 4)),
        (Figures(prompt_tokens=20, evaluated_tokens=4), (20, 16, 4)),
        (Figures(cached_tokens=16, evaluated_tokens=4), (20, 16, 4)),
        (Figures(prompt_tokens=20), (20, None, None)),
        (Figures(evaluated_tokens=4), (None, None, 4)),
        (Figures(cached_tokens=0), (None, 0, None)),
    ],
)
def test_two_counts_of_the_prompt_give_the_third(said: Figures, complete: tuple[int | None, ...]) -> None:
    known = Figures().updated(said)
    assert (known.prompt_tokens, known.cached_tokens, known.evaluated_tokens) == complete


@pytest.mark.parametrize(
    "said",
    [
        Figures(prompt_tokens=10, cached_tokens=20),
        Figures(prompt_tokens=10, evaluated_tokens=20),
        Figures(prompt_tokens=50, cached_tokens=45, evaluated_tokens=10),
        Figures(prompt_tokens=50, cached_tokens=5, evaluated_tokens=10),
    ],
)
def test_counts_of_the_prompt_that_cannot_be_are_not_known(said: Figures) -> None:
    for before in (Figures(), Figures(prompt_tokens=60, cached_tokens=50, evaluated_tokens=10)):
        known = before.updated(said)
        assert (known.prompt_tokens, known.cached_tokens, known.evaluated_tokens) == (None, None, None)


def test_more_drafts_accepted_than_made_are_not_known() -> None:
    assert Figures().updated(Figures(drafted_tokens=3, accepted_tokens=4)) == Figures()


def test_counts_of_the_output_that_cannot_be_are_not_known() -> None:
    said = Figures(output_tokens=10, thought_tokens=4)
    assert said.of_output(least=10, most=10) == said
    assert said.of_output(least=11, most=20) == said.of_output(least=0, most=9) == Figures()
    assert Figures(output_tokens=3, thought_tokens=4).of_output(least=0, most=9) == Figures(output_tokens=3)
    assert Figures(thought_tokens=10).of_output(least=0, most=9) == Figures()


def test_later_figures_take_the_place_of_earlier_ones() -> None:
    known = Figures(prompt_tokens=20, output_tokens=3, decode_s=0.5).updated(Figures(output_tokens=5, prefill_s=0.1))
    assert known == Figures(prompt_tokens=20, output_tokens=5, decode_s=0.5, prefill_s=0.1)


def test_the_figures_of_two_requests_are_sums_where_both_tell() -> None:
    first = Figures(prompt_tokens=20, cached_tokens=16, evaluated_tokens=4, output_tokens=9, prefill_s=0.1)
    both = first.then(Figures(prompt_tokens=22, output_tokens=5, decode_s=0.5))
    assert both == Figures(prompt_tokens=20, cached_tokens=16, evaluated_tokens=4, output_tokens=14)


def test_only_what_is_known_becomes_an_attribute() -> None:
    assert Figures().attributes() == {}
    said = {"prompt_tokens": 20, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
    assert Chunk.of({"usage": said}).figures.attributes() == {
        v.INPUT_TOKENS: 20,
        v.OUTPUT_TOKENS: 9,
        v.UNSPOKEN_TOKENS: 4,
    }
