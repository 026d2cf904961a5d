"""The engine against a server that plays vLLM and llama-server: tokens, counts, times, thinking, cancellation."""

import json
from typing import Any

import pytest

from agent.errors import TurnscopeError
from agent.llm import sse
from agent.llm.http_request import GRACE_TOKENS
from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.llm.sse import Connection, NoConnection, Stopped
from profiling.trace import vocabulary as v
from tests.fakes.ticking import TickingClock, never
from tests.llm.http_server import (
    ASK,
    AWAITED,
    CERTIFICATE,
    CUT,
    HANG,
    Answer,
    Event,
    PassingClock,
    engine,
    event,
    page,
    say,
    serving,
    stream,
)

HELLO = (event(""), event("Hello"), event(" there."), event(finish="stop"))


def vllm(*deltas: tuple[Event, int], prompt: int = 20) -> list[Event]:
    """Events as vLLM sends them with continuous usage: the role first, then what was generated, with the count so
    far."""
    counted, events = 0, [event("", usage={"prompt_tokens": prompt, "completion_tokens": 0})]
    for delta, tokens in deltas:
        counted += tokens
        events.append(delta | {"usage": {"prompt_tokens": prompt, "completion_tokens": counted}})
    return events


def llama_server(*deltas: tuple[Event, int]) -> list[Event]:
    """Events as llama-server sends them with timings per token, 16 of 20 prompt tokens from its cache."""
    counted, events = 0, [event()]
    for delta, tokens in deltas:
        counted += tokens
        timings = {
            "cache_n": 16,
            "prompt_n": 4,
            "prompt_ms": 30.5,
            "predicted_n": counted,
            "predicted_ms": 8.0 * counted,
        }
        events.append(delta | {"timings": timings})
    return events


class Polls:
    """Turns true when asked for the `number`-th time; counts."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked >= self.number


def test_a_reply_is_streamed_token_by_token() -> None:
    with serving(stream(*HELLO)) as server:
        asked = engine(server, temperature=0.5, seed=7, api_key="secret")
        result = say(asked, max_tokens=11)
    assert [token.text for token in result.tokens] == ["Hello", " there."] and not result.unspoken
    assert result.finished == Finished("stop") and asked.model == "m" and asked.context_tokens == 4096
    (body,) = server.asked
    assert body["model"] == "m" and body["max_tokens"] == 11 and body["stream"] is True
    assert body["temperature"] == 0.5 and body["seed"] == 7
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Well?"}]
    assert body["chat_template_kwargs"] == {"enable_thinking": False} and "thinking_token_budget" not in body
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_times_follow_one_another_from_the_request_on() -> None:
    with serving(stream(HELLO[1], AWAITED, *HELLO[2:])) as server:
        result = say(engine(server), should_stop=server.polled)
    assert result.prefill is not None
    assert result.prefill.taken_ns < result.prefill.start_ns < result.prefill.end_ns
    first, second = result.tokens
    assert first.start_ns == first.end_ns == result.prefill.end_ns
    assert first.end_ns < second.start_ns < second.end_ns
    assert {token.weight_bytes for token in result.tokens} == {None}


def test_tokens_that_come_together_take_no_time_of_their_own() -> None:
    together = b"".join(b"data: " + json.dumps(event(word)).encode() + b"\n\n" for word in (" a", " b", " c"))
    with serving(stream(together, AWAITED, together, AWAITED, event(" d"), event(finish="stop"))) as server:
        result = say(engine(server), should_stop=server.polled)
    assert result.text == " a b c a b c d"
    timed = [token.end_ns > token.start_ns for token in result.tokens]
    assert timed == [False, False, False, True, False, False, True]


def test_the_time_for_which_the_consumer_holds_the_generator_is_no_tokens() -> None:
    clock = TickingClock()
    with serving(stream(*HELLO)) as server:
        for item in engine(server, clock=clock).generate(ASK, thinking_tokens=0, max_tokens=9, should_stop=never):
            if isinstance(item, Token):
                assert item.end_ns - item.start_ns < 10**9
            clock.ns += 10**9


def test_a_server_that_counts_at_the_end_tells_the_prompt_with_finished() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 16}}
    with serving(stream(*HELLO, {"choices": [], "usage": usage})) as server:
        result = say(engine(server))
    assert result.prefill is not None and len(result.tokens) == 2
    assert (result.prefill.prompt_tokens, result.prefill.cached_tokens, result.prefill.evaluated_tokens) == (None,) * 3
    assert result.finished is not None and result.finished.attributes == {
        v.INPUT_TOKENS: 20, v.CACHED_TOKENS: 16, v.LLM_EVALUATED_TOKENS: 4, v.OUTPUT_TOKENS: 9,
    }  # fmt: skip


def test_vllm_tells_the_prompt_at_once_and_how_many_tokens_an_event_has() -> None:
    events = vllm((event("Hello"), 1), (event(" there, you"), 3), (event(".", finish="stop"), 2))
    metrics = {"time_to_first_token_ms": 85.5, "generation_time_ms": 120.0, "queue_time_ms": 1.0}
    drafts = {"num_draft_tokens": 8, "num_accepted_draft_tokens": 3}
    usage = {"prompt_tokens": 20, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 16}}
    last = {"choices": [], "usage": usage, "metrics": {**metrics, "speculative_decoding": drafts}}
    with serving(stream(*events, last)) as server:
        result = say(engine(server))
    assert result.prefill is not None
    assert (result.prefill.prompt_tokens, result.prefill.cached_tokens, result.prefill.evaluated_tokens) == (
        20,
        None,
        None,
    )
    assert [token.text for token in result.tokens] == ["Hello", "", "", " there, you", "", "."]
    first, second, third, fourth, *_ = result.tokens
    assert first.end_ns < second.start_ns and second.end_ns == third.start_ns and third.end_ns == fourth.start_ns
    lengths = [token.end_ns - token.start_ns for token in (second, third, fourth)]
    assert max(lengths) - min(lengths) <= 1
    assert result.finished is not None and result.finished.attributes == {
        v.INPUT_TOKENS: 20, v.CACHED_TOKENS: 16, v.LLM_EVALUATED_TOKENS: 4, v.OUTPUT_TOKENS: 6,
        v.LLM_SERVER_PREFILL_S: 0.0855, v.LLM_SERVER_DECODE_S: 0.12,
        v.LLM_DRAFTED_TOKENS: 8, v.LLM_ACCEPTED_TOKENS: 3,
    }  # fmt: skip


def test_llama_server_tells_all_counts_with_the_first_token_and_its_own_times() -> None:
    events = llama_server((event("Hel"), 1), (event("lo."), 2), (event(finish="stop"), 1))
    with serving(stream(*events)) as server:
        result = say(engine(server))
    assert result.prefill is not None
    assert (result.prefill.prompt_tokens, result.prefill.cached_tokens, result.prefill.evaluated_tokens) == (20, 16, 4)
    assert [token.text for token in result.tokens] == ["Hel", "", "lo.", ""]  # the last one ends the reply
    assert result.finished is not None and result.finished.attributes == {
        v.INPUT_TOKENS: 20, v.CACHED_TOKENS: 16, v.LLM_EVALUATED_TOKENS: 4, v.OUTPUT_TOKENS: 4,
        v.LLM_SERVER_PREFILL_S: 0.0305, v.LLM_SERVER_DECODE_S: 0.032,
    }  # fmt: skip


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_why_it_ended(finish: str) -> None:
    with serving(stream(event("Hello"), event(finish=finish))) as server:
        result = say(engine(server))
    assert result.finished is not None and result.finished.reason == finish


FRAMED = (
    b'event: message\r\nid: 1\r\ndata: {"choices":\r\n'
    b'data: [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}\r\n\r\n'
)


@pytest.mark.parametrize(
    "parts",
    [
        [event("Hello"), event(finish="stop")],  # the stream ends without [DONE]
        [event("Hello"), b"data: [DONE]\n\n"],  # no reason is given
        [event("Hello"), event(finish="stop"), CUT],  # the connection breaks after the end
        [event("Hello"), event(finish="stop"), HANG],  # the figures that may follow do not
        [b": ping\r\n\r\n", event("Hello", finish="stop")],
        [FRAMED],
    ],
)
def test_streams_of_other_forms(parts: list[Any]) -> None:
    with serving(Answer(parts)) as server:
        result = say(engine(server, clock=PassingClock(server)))
    assert result.text == "Hello" and result.finished is not None and result.finished.reason == "stop"


def test_events_may_arrive_in_any_pieces() -> None:
    whole = b"".join(b"data: " + text + b"\n\n" for text in (
        '{"choices": [{"delta": {"content": "é日😀"}}]}'.encode(),
        rb'{"choices": [{"delta": {"content": " \ud83d\ude00 \ud83d ok"}, "finish_reason": "stop"}]}',
    ))  # fmt: skip
    with serving(stream(*(whole[at : at + 1] for at in range(len(whole))))) as server:
        assert say(engine(server)).text == "é日😀 😀  ok"


def test_thought_that_the_server_keeps_apart_is_unspoken() -> None:
    thought = ((event(thought="Well"), 2), (event(thought=" now"), 1), (event("\n\n"), 2))
    events = llama_server(*thought, (event("Yes."), 1), (event(finish="stop"), 1))
    with serving(stream(*events)) as server:
        result = say(engine(server), thinking_tokens=20)
    assert [(token.text, token.unspoken) for token in result.tokens] == [("", True)] * 5 + [
        ("Yes.", False),
        ("", False),
    ]
    (body,) = server.asked
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert body["thinking_token_budget"] == body["thinking_budget_tokens"] == 20
    assert body["max_tokens"] == 20 + GRACE_TOKENS + 30


def test_the_tags_between_thought_and_speech_are_unspoken() -> None:
    events = vllm((event(thought="Hm"), 1), (event("Yes."), 3), (event(finish="stop"), 1))
    with serving(stream(*events)) as server:
        result = say(engine(server), thinking_tokens=20)
    assert [(token.text, token.unspoken) for token in result.tokens] == [
        ("", True), ("", True), ("", True), ("Yes.", False), ("", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("opening", "closing"), [("<think>", "</think>"), ("<|channel>thought", "<channel|>")])
def test_thought_between_tags_in_the_content_is_unspoken(opening: str, closing: str) -> None:
    pieces = [opening[:3], opening[3:] + "\n", "Well", closing[:-1], closing[-1] + "\n\n", "Yes <", "b> ", "no <"]
    with serving(stream(*map(event, pieces), event(finish="stop"))) as server:
        result = say(engine(server), thinking_tokens=20)
    assert result.text == "Yes <b> no <" and len(result.unspoken) == 4


def test_a_thought_beyond_its_budget_is_given_up_for_an_answer_without_one() -> None:
    endless = [event()] + [event(thought=" hm")] * 100
    answer = [event("Yes."), event(finish="stop")]
    with serving(Answer([*endless, HANG]), stream(*answer)) as server:
        result = say(engine(server), thinking_tokens=5)
        assert server.gone.wait(30)
    thought, spoken = result.tokens[:-1], result.tokens[-1]
    assert len(thought) == 5 + GRACE_TOKENS + 2 and all(token.unspoken for token in thought)
    assert (spoken.text, spoken.unspoken) == ("Yes.", False)
    end_of_thought = thought[-1]
    assert end_of_thought.start_ns < end_of_thought.end_ns == spoken.start_ns == spoken.end_ns
    assert result.finished == Finished("stop")
    assert server.asked[1]["chat_template_kwargs"] == {"enable_thinking": False}
    assert server.asked[1]["max_tokens"] == 30 and server.asked[1]["messages"] == server.asked[0]["messages"]


def test_a_thought_that_ends_without_a_word_is_followed_by_an_answer_and_counted() -> None:
    wordless = llama_server((event(thought="hm"), 4), (event(finish="length"), 1))
    answer = llama_server((event("Yes."), 2), (event(finish="stop"), 1))
    with serving(stream(*wordless), stream(*answer)) as server:
        result = say(engine(server), thinking_tokens=5)
    assert result.text == "Yes." and len(result.unspoken) == 5 + 1 and result.prefill is not None
    assert result.finished is not None and result.finished.reason == "stop"
    assert result.finished.attributes[v.OUTPUT_TOKENS] == 5 + 3 and result.finished.attributes[v.INPUT_TOKENS] == 20
    assert result.finished.attributes[v.LLM_SERVER_PREFILL_S] == pytest.approx(0.061)


def test_a_model_that_only_thinks_although_it_should_not_is_an_error() -> None:
    with serving(stream(event(thought="hm"), event(finish="length"))) as server:
        with pytest.raises(TurnscopeError, match="thought for 1 tokens and said nothing"):
            say(engine(server))
        engine(server).warm_up(ASK)  # one token may well be thought


def test_speech_is_bounded_when_the_thought_was_short() -> None:
    parts = [event(thought="hm"), *[event(" yes")] * 50]
    with serving(Answer([*parts, HANG])) as server:
        result = say(engine(server), thinking_tokens=40, max_tokens=3)
        assert server.gone.wait(30)
    assert result.text == " yes yes yes".lstrip() and result.finished == Finished("length")


def test_fields_that_a_server_refuses_by_name_are_left_out_from_then_on() -> None:
    refusals = [
        page({"error": {"message": "Unknown parameter: 'stream_options.continuous_usage_stats'."}}, 400),
        page({"detail": [{"type": "extra_forbidden", "loc": ["body", "timings_per_token"]}]}, 422),
        page({"error": {"message": "thinking_token_budget is set but reasoning_config is not"}}, 400),
    ]
    with serving(*refusals, stream(*HELLO)) as server:
        asked = engine(server)
        assert say(asked, thinking_tokens=9).text == "Hello there."
        say(asked, thinking_tokens=9)
    assert len(server.asked) == 5
    for body in server.asked[3:]:
        assert body["stream_options"] == {"include_usage": True} and body["thinking_budget_tokens"] == 9
        assert "timings_per_token" not in body and "thinking_token_budget" not in body


REFUSED_WORDS = "What is the temperature of the sea, and the context length of a seed?"
ABOUT_THE_WORDS = {
    "OpenAI": {"error": {"message": f"Bad message: '{REFUSED_WORDS}'", "param": "messages"}},
    "FastAPI": {"detail": [{"loc": ["body", "messages", 1], "msg": "Not valid", "input": f"'{REFUSED_WORDS}' 'seed'"}]},
    "vLLM": {
        "error": {"message": f"[{{'loc': ('body',), 'msg': 'No', 'input': {{'temperature': '{REFUSED_WORDS}'}}}}]"}
    },
}


@pytest.mark.parametrize("case", ABOUT_THE_WORDS)
def test_the_words_of_a_message_name_no_field_and_no_overflow(case: str) -> None:
    with serving(page(ABOUT_THE_WORDS[case], 400)) as server:
        asked = engine(server)
        with pytest.raises(TurnscopeError, match=r"refuses the request \(400"):
            say(asked, [Message("user", REFUSED_WORDS)])
        server.answers = [stream(*HELLO)]
        say(asked)
    assert len(server.asked) == 2 and asked.context_tokens == 4096
    assert "temperature" in server.asked[1] and "seed" in server.asked[1]


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "Not supported with this model.", "param": "temperature"}},
        {"error": {"message": "Unsupported value: 'temperature' does not support 0."}},
        {"detail": [{"loc": ["body", "temperature"], "msg": "Extra inputs are not permitted", "input": 0.0}]},
    ],
)
def test_a_field_of_an_ordinary_name_is_left_out_where_it_is_named(refusal: Any) -> None:
    with serving(page(refusal, 400), stream(*HELLO)) as server:
        assert say(engine(server), [Message("user", REFUSED_WORDS)]).text == "Hello there."
    assert "temperature" in server.asked[0] and "temperature" not in server.asked[1]


def test_a_refusal_of_something_else_is_an_error() -> None:
    with serving(page({"error": {"message": "messages must not be empty"}}, 400)) as server:
        asked = engine(server)
        with pytest.raises(TurnscopeError, match=r"refuses the request \(400 \(messages must not be empty"):
            say(asked)
    assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [Answer([HANG], before_head=True), Answer([HANG]), Answer([event(""), HANG])])
def test_cancelled_before_the_first_token(answer: Answer) -> None:
    polls = Polls(6)
    with serving(answer) as server:
        asked = engine(server)
        items = list(asked.generate(ASK, thinking_tokens=0, max_tokens=9, should_stop=polls))
        assert server.gone.wait(30)
        server.answers = [stream(*HELLO)]
        assert say(asked).text == "Hello there."
    assert items == [Finished("cancelled")] and polls.asked == 6


def test_cancelled_between_tokens() -> None:
    heard: list[Any] = []
    polls: list[int] = []

    def should_stop() -> bool:
        polls.append(len(heard))
        return len(heard) >= 3

    with serving(Answer([*llama_server((event("Hello"), 1), (event(" there"), 1)), HANG])) as server:
        for item in engine(server).generate(ASK, thinking_tokens=0, max_tokens=9, should_stop=should_stop):
            heard.append(item)
        assert server.gone.wait(30)
    assert [type(item) for item in heard] == [Prefill, Token, Token, Finished]
    assert heard[-1].reason == "cancelled" and heard[-1].attributes[v.OUTPUT_TOKENS] == 2
    assert polls.count(3) == 1


def test_cancelled_at_once_when_events_wait_already() -> None:
    with serving(stream(*[event(" word")] * 200, event(finish="length"))) as server:
        result = say(engine(server), max_tokens=500, should_stop=(polls := Polls(20)))
    assert result.finished is not None and result.finished.reason == "cancelled"
    assert len(result.tokens) < 20 and polls.asked == 20


def test_a_generation_that_is_closed_or_followed_by_another_ends_at_the_server() -> None:
    hanging = Answer([event("Hello"), HANG])
    with serving(hanging) as server:
        asked = engine(server)
        first = asked.generate(ASK, thinking_tokens=0, max_tokens=9, should_stop=never)
        assert isinstance(next(first), Prefill)
        first.close()
        assert server.gone.wait(30)

        second = asked.generate(ASK, thinking_tokens=0, max_tokens=9, should_stop=never)
        assert isinstance(next(second), Prefill) and isinstance(next(second), Token)
        server.answers = [stream(*HELLO)]
        assert say(asked).text == "Hello there."
        assert list(second) == [Finished("cancelled")]


def test_a_connection_that_does_not_come_about_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_yet(_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(sse, "_writable", not_yet)
    with serving() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        polls = Polls(3)
        with pytest.raises(Stopped):
            Connection("127.0.0.1", port, None, clock=TickingClock(), timeout_s=9, should_stop=polls)
        assert polls.asked == 3
        with pytest.raises(NoConnection, match="no answer within 5 s"):
            Connection("127.0.0.1", port, None, clock=TickingClock(), timeout_s=9, should_stop=never)


def test_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    long = "word " * 20_000
    with serving(stream(event(long), *HELLO), tls=True) as server:
        asked = engine(server)
        result = say(asked, [Message("user", long)], max_tokens=15_000)
        assert result.text == f"{long}Hello there." and server.asked[0]["messages"][0]["content"] == long
        server.answers = [Answer([event("Hello"), HANG])]
        assert say(asked, should_stop=server.hanging.is_set).finished == Finished("cancelled")
        assert server.gone.wait(30)


def test_the_context_and_the_name_are_the_servers() -> None:
    cases = [
        ({"id": "org/m", "max_model_len": 1000}, None, "org/m", 1000),  # vLLM
        ({"id": "/models/tiny.Q4_0.gguf", "meta": {"n_ctx": 700}}, None, "tiny.Q4_0", 700),  # llama-server
        ({"id": "m", "max_model_len": 1000}, 600, "m", 600),
        ({"id": "m", "max_model_len": 1000}, 6000, "m", 1000),
        ({"id": "m"}, 600, "m", 600),
    ]
    with serving() as server:
        for entry, given, name, context in cases:
            server.models = page({"data": [entry]})
            asked = engine(server, context_tokens=given)
            assert (asked.model, asked.context_tokens) == (name, context)
        server.props = page({"default_generation_settings": {"n_ctx": 300}})  # llama-server, older
        assert engine(server).context_tokens == 300


def test_one_of_several_models_is_chosen_by_name_or_alias() -> None:
    with serving(stream(*HELLO)) as server:
        server.models = page({"data": [{"id": "a"}, {"id": "b", "aliases": ["other"]}]})
        for name in ("b", "other"):
            say(engine(server, model=name))
    assert [body["model"] for body in server.asked] == ["b", "b"]


def test_the_length_of_prompts_is_estimated_in_the_last_ones_proportion() -> None:
    longer = [*ASK, Message("assistant", "Hm."), Message("user", "word " * 100)]
    usage = {"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 1}}
    with serving(stream(*HELLO, usage)) as server:
        asked = engine(server)
        assert 15 < asked.prompt_tokens(ASK) < 20 and 150 < asked.prompt_tokens(longer) < 200
        asked.warm_up([Message("system", "Be brief.")])
        assert server.asked[0]["max_tokens"] == 1 and server.asked[0]["messages"][-1]["role"] == "user"
        assert asked.prompt_tokens([Message("system", "Be brief."), Message("user", "Hello.")]) == 42
        assert asked.prompt_tokens([]) > 0


def test_a_refused_length_shrinks_the_context_so_that_the_history_is_trimmed() -> None:
    said = "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens."
    with serving(page({"error": {"message": said}}, 400)) as server:
        asked = engine(server)
        long = [Message("user", "word " * 1500)]
        with pytest.raises(
            TurnscopeError, match=r"does not fit into the context .*This model's maximum context length"
        ):
            say(asked, long)
        assert asked.context_tokens == asked.prompt_tokens(long) < 4096


def test_a_name_is_shown_without_what_a_terminal_would_obey() -> None:
    names = {
        r"m\u001b[2J[bold]\nx": "m [2J[bold] x",
        r"m\ud800": "m",
        "": "a model without a name",
        "m" * 5000: "m" * 197 + "...",
    }
    with serving(stream(*HELLO)) as server:
        for name, shown in names.items():
            server.models = page(f'{{"data": [{{"id": "{name}"}}]}}')
            asked = engine(server)
            say(asked)
            assert asked.model == shown and server.asked[-1]["model"] == json.loads(f'"{name}"')
        server.models = page(r'{"data": [{"id": "\u001b[2J"}, {"id": "b"}]}')
        with pytest.raises(TurnscopeError, match=r"several models \(\[2J, b\)"):
            engine(server)


@pytest.mark.parametrize("kind", ["content", "thought"])
def test_a_server_that_does_not_stop_is_stopped(kind: str) -> None:
    without_end = [event("word "), *[event(**{kind: "on "}) for _ in range(500)], HANG]
    with serving(stream(*without_end)) as server:
        result = say(engine(server), max_tokens=5)
    assert result.finished is not None and result.finished.reason == "length"
    assert len(result.tokens) == 5 + GRACE_TOKENS + 1
