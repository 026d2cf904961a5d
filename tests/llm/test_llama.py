"""The engine on the real small model: prefix reuse, cancellation, thinking, determinism, times, overflow."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from agent.errors import TurnscopeError
from agent.llm.history import History
from agent.llm.kv_cache import KvCache
from agent.llm.llama import LlamaEngine
from agent.llm.prompts import EXAMPLES, SYSTEM_PROMPT
from agent.llm.protocol import Message, Prefill, Token
from agent.speaking import leading_words
from tests.fakes.ticking import TickingClock, never, stop_at
from tests.llm.reading import Read, read

SHORT = "Answer in one short sentence."
QUESTION = [Message("system", SHORT), Message("user", "What is the capital of France?")]
LONG = [Message("system", SHORT), Message("user", "Please count with me. " + "One, two, three, four, five. " * 12)]


def say(engine: LlamaEngine, messages: Sequence[Message], thinking_tokens: int = 0, max_tokens: int = 24) -> Read:
    return read(engine.generate(messages, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=never))


def turn(engine: LlamaEngine, history: History, words: str) -> Read:
    history.add_user(words)
    result = say(engine, history.messages())
    history.add_reply(result.text)
    return result


def test_it_answers_and_describes_itself(engine: LlamaEngine) -> None:
    result = say(engine, QUESTION)
    assert "Paris" in result.text and result.finished is not None and result.finished.reason == "stop"
    assert engine.model == "smollm2-135m" and engine.context_tokens == 512
    assert 134_000_000 < engine.parameters < 135_000_000 and 140_000_000 < engine.weights_bytes < 145_000_000


def test_the_whole_conversation_before_is_reused(gguf_path: Path) -> None:
    engine = LlamaEngine(gguf_path, clock=TickingClock())
    history = History(SYSTEM_PROMPT, EXAMPLES)
    engine.warm_up(history.opening())
    opening = engine.prefill(history.opening(), should_stop=never)
    assert opening is not None and opening.evaluated_tokens == 0

    cached = opening.prompt_tokens
    for words in ("Good morning.", "What is the capital of France?", "Go forward ten meters."):
        result = turn(engine, history, words)
        assert result.prefill is not None and result.finished is not None
        assert result.prefill.cached_tokens == cached
        assert result.prefill.prompt_tokens == result.prefill.cached_tokens + result.prefill.evaluated_tokens
        assert result.prefill.evaluated_tokens < 25
        reply = len(result.tokens) - (result.finished.reason == "stop")  # the ending token is not evaluated ...
        cached = result.prefill.prompt_tokens + reply - (result.finished.reason == "length")  # ... nor is a last one


def test_an_interruption_edits_the_tail_only(engine: LlamaEngine) -> None:
    history = History(SHORT)
    history.add_user("Tell me about the sea.")
    said = say(engine, history.messages())
    assert said.prefill is not None
    words = said.text.split()
    history.add_reply(" ".join(words[:4]))
    history.add_user("Stop.")
    after = say(engine, history.messages(), max_tokens=1)
    assert after.prefill is not None
    heard = [
        token
        for token, text in zip(said.tokens, accumulated(said), strict=True)
        if len(text) <= len(" ".join(words[:4]))
    ]
    assert after.prefill.cached_tokens == said.prefill.prompt_tokens + len(heard)


def test_a_turn_after_an_interruption_evaluates_no_more_than_any_other(gguf_path: Path) -> None:
    """Whether the reply was written to its end while it was paused, or cancelled in its midst: what is evaluated are
    the new words and, at most, the last token of what was heard, where the cut splits one."""
    engine = LlamaEngine(gguf_path, clock=TickingClock())
    usual: int | None = None
    for cut, stop in ((None, never), (4, never), (4, stop_at(12)), (1, never)):
        history = History(SYSTEM_PROMPT, EXAMPLES)
        history.add_user("Tell me about the sea.")
        messages = history.messages()
        said = read(engine.generate(messages, thinking_tokens=0, max_tokens=24, should_stop=stop))
        history.add_reply(said.text if cut is None else leading_words(said.text, cut / len(said.text.split())))
        history.add_user("Stop, what is the time?")
        after = say(engine, history.messages(), max_tokens=1)
        assert after.prefill is not None and said.prefill is not None
        assert after.prefill.cached_tokens is not None and after.prefill.evaluated_tokens is not None
        assert after.prefill.cached_tokens >= said.prefill.prompt_tokens
        usual = after.prefill.evaluated_tokens if usual is None else usual
        assert after.prefill.evaluated_tokens <= usual + 1
    engine.close()


def test_the_same_words_cost_the_same_prefill_in_every_conversation(engine: LlamaEngine) -> None:
    evaluated = []
    for _ in range(2):
        engine.prefill(QUESTION[:1], should_stop=never)
        said = say(engine, QUESTION)
        assert said.prefill is not None
        evaluated.append(said.prefill.evaluated_tokens)
        engine.prefill([*QUESTION, Message("assistant", said.text)], should_stop=never)
    assert evaluated[0] == evaluated[1] > 4


def accumulated(result: Read) -> list[str]:
    return ["".join(token.text for token in result.tokens[: at + 1]) for at in range(len(result.tokens))]


def test_a_growing_utterance_is_prefilled_as_it_grows(engine: LlamaEngine) -> None:
    first = engine.prefill([Message("system", SHORT), Message("user", "What is the")], should_stop=never)
    second = engine.prefill(QUESTION, should_stop=never)
    result = say(engine, QUESTION)
    assert first is not None and second is not None and result.prefill is not None
    assert second.cached_tokens == first.prompt_tokens and second.evaluated_tokens == 4  # capital, of, France, ?
    assert result.prefill.cached_tokens == second.prompt_tokens
    assert result.prefill.evaluated_tokens == 6  # <|im_end|> \n <|im_start|> ass istant \n


def test_the_same_conversation_gives_the_same_reply_however_it_came_into_the_cache(
    engine: LlamaEngine, gguf_path: Path
) -> None:
    fresh = say(LlamaEngine(gguf_path, clock=TickingClock(), context_tokens=512), QUESTION)
    engine.prefill([*QUESTION[:1], Message("user", "What is")], should_stop=never)
    assert [t.text for t in say(engine, QUESTION).tokens] == [t.text for t in fresh.tokens]
    assert [t.text for t in say(engine, QUESTION).tokens] == [t.text for t in fresh.tokens]


def test_a_seed_decides_what_is_drawn(gguf_path: Path) -> None:
    def replies(seed: int) -> list[str]:
        engine = LlamaEngine(gguf_path, clock=TickingClock(), context_tokens=256, temperature=1.5, seed=seed)
        story = [Message("user", "Tell me a story about a dragon.")]
        return [say(engine, story, max_tokens=12).text for _ in range(2)]

    one, other = replies(1), replies(2)
    assert one[0] == one[1] and other[0] == other[1] and one[0] != other[0]


@pytest.mark.parametrize("asked", [1, 40, 700])
def test_cancelled_in_prefill_leaves_no_trace(engine: LlamaEngine, asked: int) -> None:
    say(engine, QUESTION, max_tokens=1)
    clean = say(engine, LONG)
    say(engine, QUESTION, max_tokens=1)
    stopped = read(engine.generate(LONG, thinking_tokens=0, max_tokens=24, should_stop=stop_at(asked)))
    assert stopped.prefill is None and stopped.tokens == []
    again = say(engine, LONG)
    assert clean.prefill is not None and again.prefill is not None
    assert [t.text for t in again.tokens] == [t.text for t in clean.tokens]
    # What a stop in the second batch leaves of the first may be used again.
    assert again.prefill.cached_tokens - clean.prefill.cached_tokens == (128 if asked == 700 else 0)


def test_cancelled_in_decode_stops_before_the_next_token(engine: LlamaEngine) -> None:
    clean = say(engine, QUESTION)
    stop = False
    seen: list[Token] = []
    generation = engine.generate(QUESTION, thinking_tokens=0, max_tokens=24, should_stop=lambda: stop)
    for item in generation:
        if isinstance(item, Token):
            seen.append(item)
            stop = len(seen) == 3
    assert [t.text for t in seen] == [t.text for t in clean.tokens[:3]]
    assert [t.text for t in say(engine, QUESTION).tokens] == [t.text for t in clean.tokens]


def test_an_abandoned_generation_gives_way_to_a_new_one(engine: LlamaEngine) -> None:
    clean = say(engine, QUESTION)
    older = engine.generate(QUESTION, thinking_tokens=0, max_tokens=24, should_stop=never)
    for _ in range(3):
        next(older)
    assert say(engine, LONG, max_tokens=3).tokens
    assert [item for item in older if isinstance(item, Token)] == []
    assert [t.text for t in say(engine, QUESTION).tokens] == [t.text for t in clean.tokens]


def test_logits_after_an_abort_are_bit_identical(engine: LlamaEngine) -> None:
    import llama_cpp

    gguf, context = engine._gguf, engine._context
    cache = KvCache(context)
    llama_cpp.llama_memory_clear(context.memory, True)
    prompt = gguf.tokenize("The quick brown fox jumps over the lazy dog. " * 8, special=False)

    def logits() -> list[float]:
        return llama_cpp.llama_get_logits_ith(context.handle, -1)[: gguf.vocab_tokens]

    assert cache.evaluate(prompt[:20], never) and cache.evaluate(prompt[20:], never)
    clean = logits()
    cache.roll_back(20)
    assert not cache.evaluate(prompt[20:], stop_at(200))
    assert cache.tokens == prompt[:20]
    assert cache.evaluate(prompt[20:], never) and logits() == clean
    engine._cache.tokens = list(cache.tokens)


def test_what_should_stop_raises_comes_through(engine: LlamaEngine) -> None:
    asked = iter(range(100))

    def interrupt() -> bool:
        if next(asked) == 20:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        list(engine.generate(LONG[::-1], thinking_tokens=0, max_tokens=4, should_stop=interrupt))
    assert say(engine, QUESTION).text


@pytest.mark.parametrize("budget", [1, 5, 12])
def test_thinking_keeps_its_budget_and_is_never_visible(engine: LlamaEngine, budget: int) -> None:
    result = say(engine, [Message("user", "Tell me a story about a dragon.")], thinking_tokens=budget)
    assert len(result.unspoken) == 3 + budget + 3  # <think> and </think> are three tokens each in this vocabulary
    assert result.tokens[: len(result.unspoken)] == result.unspoken
    assert all(token.text == "" for token in result.unspoken)
    assert result.text.strip() and "think" not in result.text and "<" not in result.text


def test_the_tokens_of_a_tag_share_one_read(engine: LlamaEngine) -> None:
    result = say(engine, QUESTION, thinking_tokens=1)
    assert result.prefill is not None and result.prefill.prompt_tokens is not None
    depth = result.prefill.prompt_tokens
    opening = [(token.weight_bytes, token.kv_bytes) for token in result.unspoken[:3]]
    assert opening == [(engine.weight_bytes_per_token, engine.kv_bytes(depth + 3)), (0, 0), (0, 0)]


def test_times_tile_the_generation(engine: LlamaEngine) -> None:
    clock = engine._clock
    assert isinstance(clock, TickingClock)
    items = []
    for item in engine.generate(QUESTION, thinking_tokens=4, max_tokens=8, should_stop=never):
        items.append(item)
        clock.ns += 7_000_000  # the consumer holds the generator
    timed = [item for item in items if isinstance(item, Prefill | Token)]
    assert isinstance(timed[0], Prefill) and len(timed) > 8
    for before, after in pairwise(timed):
        assert after.start_ns < after.end_ns
        injected_together = after.start_ns == before.end_ns
        assert injected_together or after.start_ns == before.end_ns + 8_000_000 or before.end_ns < after.start_ns
    sampled = [item for item in timed[1:] if isinstance(item, Token) and not item.unspoken]
    assert all(token.end_ns - token.start_ns == 1_000_000 for token in sampled)
    gaps = {after.start_ns - before.end_ns for before, after in pairwise(sampled)}
    assert gaps == {8_000_000}  # the consumer's seven and the reading of the clock


def test_too_long_a_conversation_is_refused_and_trimmed_by_turns(engine: LlamaEngine) -> None:
    history = History(SHORT)
    for number in range(30):
        history.add_user(f"This is question number {number}, and it has some words in it.")
        history.add_reply(f"This is answer number {number}, and it has some words in it too.")
    history.add_user("And now?")
    with pytest.raises(TurnscopeError, match="context of smollm2-135m has 512: shorten"):
        list(engine.generate(history.messages(), thinking_tokens=0, max_tokens=8, should_stop=never))
    dropped = history.trim(lambda messages: engine.prompt_tokens(messages) <= 512 - 40 - 8 - 6)
    assert 0 < dropped < 30
    kept = history.messages()
    assert kept[0] == Message("system", SHORT) and f"number {dropped}," in kept[1].content
    assert engine.prompt_tokens(kept) + 40 + 8 + 6 <= 512
    assert say(engine, kept).text


def test_a_reply_ends_where_the_context_ends(gguf_path: Path) -> None:
    engine = LlamaEngine(gguf_path, clock=TickingClock(), context_tokens=64)
    result = say(engine, [Message("user", "Tell me a long story about a dragon, a king and a castle.")], max_tokens=100)
    assert result.prefill is not None and result.finished is not None and result.finished.reason == "length"
    assert result.prefill.prompt_tokens + len(result.tokens) == 64 + 1  # the last token is chosen, not evaluated


def test_repetition_is_held_down(gguf_path: Path) -> None:
    """Otherwise the model answers the second question with the first answer, and greetings with themselves."""
    engine = LlamaEngine(gguf_path, clock=TickingClock())
    history = History(SYSTEM_PROMPT, EXAMPLES)
    engine.warm_up(history.opening())
    replies = [
        turn(engine, history, words).text
        for words in ("Hello there.", "What is the capital of France?", "And how many people live there?")
    ]
    assert len(set(replies)) == 3 and replies[0] != "Hello there." and "\n" not in "".join(replies)
