"""A server that sends without end, or what cannot be: the engine ends its wait, its memory and its belief."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from agent.errors import TurnscopeError
from agent.llm.http_reply import CHARACTERS_PER_TOKEN
from agent.llm.http_request import GRACE_TOKENS
from agent.llm.protocol import Finished, Message
from profiling.trace import vocabulary as v
from tests.llm.http_server import ASK, Answer, FastClock, engine, event, say, serving, stream

MANY = 200_000  # so many that a client which reads them all is known by its sentence
NOTHING_USEFUL: dict[str, Any] = {
    "empty content": event(""),
    "no choices": {"choices": []},
    "pings": b": ping\n\n" * 20,
    "lines of data": b"data: x\n" * 4,
    "blank lines": b"\n" * 100,
    "the same count": event(usage={"prompt_tokens": 9, "completion_tokens": 0}),
}


@pytest.mark.parametrize("case", NOTHING_USEFUL)
def test_only_what_is_of_the_reply_moves_the_deadline(case: str) -> None:
    with serving(Answer(repeat(NOTHING_USEFUL[case], MANY))) as server:
        for ask in (
            lambda: say(engine(server, clock=FastClock())),
            lambda: engine(server, clock=FastClock()).warm_up(ASK),
        ):
            with pytest.raises(TurnscopeError, match="sent nothing of its reply for 60 s"):
                ask()
            assert server.gone.wait(30)
            server.gone.clear()


def test_tokens_without_text_are_of_the_reply() -> None:
    growing = (event(usage={"prompt_tokens": 9, "completion_tokens": count}) for count in range(2000))
    last = event("Hello.", finish="stop", usage={"prompt_tokens": 9, "completion_tokens": 2000})
    with serving(stream(*growing, last)) as server:
        assert say(engine(server, clock=FastClock()), max_tokens=3000).text == "Hello."


def test_events_after_the_end_are_waited_for_once() -> None:
    def parts() -> Iterator[Any]:
        yield from (event("Hello"), event(finish="stop"))
        yield from repeat(event(""), MANY)

    with serving(Answer(parts())) as server:
        result = say(engine(server, clock=FastClock()))
        assert server.gone.wait(30)
    assert result.text == "Hello" and result.finished == Finished("stop")


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_the_deadline_holds_before_the_answer_begins(head: bytes) -> None:
    def parts() -> Iterator[bytes]:
        yield head
        yield from repeat(head if b"100" in head else b"b", MANY)

    with serving(Answer(parts(), before_head=True)) as server:
        with pytest.raises(TurnscopeError, match=r"sent nothing for 60 s|not HTTP"):
            say(engine(server, clock=FastClock()))
        assert server.gone.wait(30)


@pytest.mark.parametrize("block", [b"x" * 65_536, b"data: x\n" * 8192])
def test_an_event_without_end_is_not_kept(block: bytes) -> None:
    def parts() -> Iterator[bytes]:
        yield b"data: "
        yield from repeat(block, 1000)

    with serving(Answer(parts())) as server:
        with pytest.raises(TurnscopeError, match=r"does not answer like .*\(an event without end\)"):
            say(engine(server))
        assert server.gone.wait(30)


@pytest.mark.parametrize("thinking_tokens", [0, 40])
def test_a_reply_is_bounded_by_its_characters_too(thinking_tokens: int) -> None:
    with serving(stream(event("word " * 100_000), event(finish="stop"))) as server:
        result = say(engine(server), max_tokens=10, thinking_tokens=thinking_tokens)
    assert result.finished == Finished("length")
    assert result.text == ("word " * 100)[: (10 + GRACE_TOKENS) * CHARACTERS_PER_TOKEN]


def counted(*numbers: int) -> list[Any]:
    """An event of a word for each count of the output, and one for the end."""
    words = [event(" word", usage={"prompt_tokens": 9, "completion_tokens": number}) for number in numbers]
    return [*words, event(finish="stop")]


@pytest.mark.parametrize(
    "parts",
    [
        [*counted(0, 0, 0)],
        [*counted(1, 100_000, 100_001)],
        [*counted(1, 2, 10**30)],
        [event(" word"), event(" word"), event(" word"), *counted(0)[1:], {"usage": {"completion_tokens": 2}}],
        [event(" word"), event(" word"), event(" word"), *counted(0)[1:], {"usage": {"completion_tokens": 100_000}}],
    ],
)
def test_a_count_of_the_output_that_cannot_be_is_as_none(parts: list[Any]) -> None:
    with serving(stream(*parts)) as server:
        result = say(engine(server))
    assert result.text == " word word word" and len(result.tokens) == 3
    assert result.finished is not None and result.finished.attributes.get(v.OUTPUT_TOKENS, 2) == 2


def test_a_context_that_cannot_be_is_as_none() -> None:
    with serving() as server:
        server.models = Answer(
            [b'{"data": [{"id": "m", "max_model_len": 1' + b"0" * 40 + b"}]}"], kind="application/json"
        )
        assert engine(server).context_tokens == 4096


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([event(finish="content_filter")], "content filter of .* withheld the reply: say it otherwise"),
        ([event(" "), event("\n"), event(finish="stop")], r"no word in it \(finish_reason 'stop'\)"),
        ([event(finish="tool\x1b_calls")], r"no word in it \(finish_reason 'tool _calls'\)"),
        ([event(""), {"usage": {"completion_tokens": 0}}], r"no word in it \(finish_reason 'stop'\)"),
    ],
)
def test_why_a_reply_makes_no_sound(parts: list[Any], sentence: str) -> None:
    with serving(stream(*parts)) as server:
        asked = engine(server)
        asked.warm_up([Message("system", "Be brief.")])  # its one token may well be white space
        with pytest.raises(TurnscopeError, match=sentence):
            say(asked)
