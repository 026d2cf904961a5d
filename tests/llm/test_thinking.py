"""What is visible of a stream of tokens, and the reply's budgets, without a model."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from agent.llm.reply import Reply, Work
from agent.llm.thinking import CHANNEL, THINK, Speech

OPEN, CLOSE = [1, 2], [3]
ONE = Work(0, 1, 9, 3)


def feed(speech: Speech, *pieces: str | bytes) -> list[tuple[str, bool]]:
    return [speech.feed(piece if isinstance(piece, bytes) else piece.encode()) for piece in pieces]


def test_characters_split_over_tokens_come_out_whole() -> None:
    smile = "😀".encode()
    assert feed(Speech(THINK), "a", smile[:1], smile[1:3], smile[3:] + b"b") == [
        ("a", False), ("", False), ("", False), ("😀b", False)
    ]  # fmt: skip


def test_bytes_that_make_no_character_are_dropped() -> None:
    speech = Speech(THINK)
    assert feed(speech, b"a\xff", "b", b"\xe6\x97") == [("a", False), ("b", False), ("", False)]
    assert speech.finish() == ""


def test_a_thought_between_tags_is_unspoken_wherever_tokens_end() -> None:
    text = "Well.<think>No < yes. It is 5.</think>\n\n It is six."
    for size in range(1, len(text)):
        speech = Speech(THINK)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        visible = "".join(said for said, _ in feed(speech, *pieces)) + speech.finish()
        assert visible == "Well.It is six.", size


def test_what_only_looks_like_a_tag_is_said() -> None:
    speech = Speech(THINK)
    assert feed(speech, "a <", "thin", " b", " </") == [("a ", False), ("", False), ("<thin b", False), (" ", False)]
    assert speech.finish() == "</"


def test_a_closing_tag_without_a_thought_is_not_said() -> None:
    assert feed(Speech(THINK), "a", "</think>", "b") == [("a", False), ("", False), ("b", False)]


def run(reply: Reply, pieces: Sequence[str | None]) -> list[tuple[str, bool]]:
    """Feed tokens (None: the end) and tags as they fall due; return what comes out until the reply has ended."""
    seen: list[tuple[str, bool]] = []
    waiting = list(pieces)
    while reply.ended is None and not reply.is_long_enough() and (waiting or reply.tag):
        if reply.tag:
            tokens = reply.injected(Work(0, 10, 9, 3))
        elif (piece := waiting.pop(0)) is None:
            tokens = [reply.sampled_end(ONE)]
        else:
            tokens = [reply.sampled(7, piece.encode(), ONE)]
        seen += [(token.text, token.unspoken) for token in tokens]
    return seen


def reply(thinking_tokens: int, max_tokens: int) -> Reply:
    return Reply(thinking_tokens, max_tokens, opening_tag=OPEN, closing_tag=CLOSE)


def test_a_thought_is_opened_held_to_its_budget_and_closed() -> None:
    seen = run(reply(2, 10), ["x", "y", "Yes", None])
    assert seen == [("", True)] * (2 + 2 + 1) + [("Yes", False), ("", False)]


def test_the_model_may_close_its_thought_early() -> None:
    seen = run(reply(9, 10), ["x", "</think>", "Yes", None])
    assert seen == [("", True)] * 4 + [("Yes", False), ("", False)]


def test_an_end_within_the_thought_leads_to_the_answer() -> None:
    thinking = reply(9, 10)
    seen = run(thinking, ["x", None, "Yes", None])
    assert seen == [("", True)] * (2 + 2 + 1) + [("Yes", False), ("", False)] and thinking.ended == "stop"


def test_a_thought_that_nobody_asked_for_is_closed_at_once() -> None:
    seen = run(reply(0, 10), ["<think>", "Yes", None])
    assert seen == [("", True), ("", True), ("Yes", False), ("", False)]


def test_a_model_that_keeps_thinking_comes_to_an_end() -> None:
    stubborn = reply(1, 3)
    seen = run(stubborn, ["<think>"] * 100)
    assert stubborn.is_long_enough() and len(seen) < 20 and all(unspoken for _, unspoken in seen)


def native(thinking_tokens: int, max_tokens: int, *, begins_in_thought: bool = False) -> Reply:
    return Reply(
        thinking_tokens, max_tokens, opening_tag=[1], closing_tag=[2], tags=CHANNEL, begins_in_thought=begins_in_thought
    )


def test_a_native_thinker_opens_its_thought_itself() -> None:
    seen = run(native(9, 10), ["<|channel>", "thought", "<channel|>", "Yes", None])
    assert seen == [("", True)] * 3 + [("Yes", False), ("", False)]
    assert run(native(9, 10), ["Yes", None]) == [("Yes", False), ("", False)]


def test_a_native_thinkers_budget_counts_what_follows_the_opening_tag() -> None:
    seen = run(native(2, 10), ["<|channel>", "thought", "x", "Yes", None])
    assert seen == [("", True)] * (1 + 2 + 1) + [("Yes", False), ("", False)]


@pytest.mark.parametrize(
    ("budget", "thought", "unspoken"),
    [(0, [], 1), (1, ["x"], 2), (5, ["x", "y", "<channel|>"], 3)],
)
def test_a_prompt_may_open_the_thought(budget: int, thought: list[str], unspoken: int) -> None:
    seen = run(native(budget, 10, begins_in_thought=True), [*thought, "Yes", None])
    assert seen == [("", True)] * unspoken + [("Yes", False), ("", False)]


def test_the_room_is_what_the_next_limit_leaves() -> None:
    thinking = native(3, 10)
    assert thinking.room == 10
    run(thinking, ["<|channel>", "x"])
    assert thinking.room == 2
    run(thinking, ["<channel|>", "Yes"])
    assert thinking.room == 9


def test_the_limit_counts_visible_tokens_and_gives_out_what_waited() -> None:
    assert run(reply(0, 2), ["a", " <", "b"]) == [("a", False), (" <", False)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_tokens_of_a_tag_share_its_time_without_gap(count: int) -> None:
    tokens = Reply(1, 1, opening_tag=[5] * count, closing_tag=CLOSE).injected(Work(100, 200, 9, 3))
    assert len(tokens) == count and tokens[0].start_ns == 100 and tokens[-1].end_ns == 200
    assert all(a.end_ns == b.start_ns for a, b in pairwise(tokens))
    assert [(token.weight_bytes, token.kv_bytes) for token in tokens] == [(9, 3), *[(0, 0)] * (count - 1)]
    assert all(token.injected for token in tokens)
