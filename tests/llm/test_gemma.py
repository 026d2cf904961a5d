"""The engine on tiny files of the Gemma 4 architecture: native thinking, the prefix, sliding windows, cancellation."""

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from agent.errors import TurnscopeError
from agent.llm.history import History
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Message, Token
from tests.fakes.ticking import TickingClock, never, stop_at
from tests.llm.reading import Read, read
from tests.tiny_models.gemma import SMALL, Shape, write_gemma

THOUGHT, ANSWER = ["thought", "▁well", "▁so"], ["▁yes", "▁no", "."]
SCRIPT = ["<|channel>", *THOUGHT, "<channel|>", *ANSWER, "<turn|>"]
ASK = [Message("system", "Be brief."), Message("user", "hello there, what is the weather?")]
WORDY = "hello there, what is the weather today? sunny or rain, you could say no more than one word! "


def load(path: Path, **settings: object) -> LlamaEngine:
    return LlamaEngine(path, clock=TickingClock(), **settings)  # type: ignore[arg-type]


def say(engine: LlamaEngine, messages: list[Message], thinking_tokens: int = 0, max_tokens: int = 24) -> Read:
    return read(engine.generate(messages, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=never))


def asking(words: str) -> list[Message]:
    return [ASK[0], Message("user", words)]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaEngine]:
    engine = load(write_gemma(tmp_path_factory.mktemp("gemma") / "scripted.gguf", script=SCRIPT))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def random_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(context=1024)
    return write_gemma(tmp_path_factory.mktemp("gemma") / "random.gguf", shape, weights=GGMLQuantizationType.Q8_0)


@pytest.fixture(scope="module")
def engine(random_file: Path) -> Iterator[LlamaEngine]:
    engine = load(random_file)
    yield engine
    engine.close()


# Thinking


def test_thinking_off_ends_the_prompt_with_an_empty_channel(scripted: LlamaEngine) -> None:
    result = say(scripted, ASK)
    assert result.text == " yes no." and result.unspoken == []
    assert written(scripted, len(scripted._cache.tokens)).split("<|turn>model\n")[1] == (
        "<|channel>thought\n<channel|> yes no."
    )


def test_thinking_on_is_told_at_the_top_of_the_system_turn(scripted: LlamaEngine) -> None:
    result = say(scripted, ASK, thinking_tokens=50)
    assert result.prefill is not None
    assert written(scripted, 6) == "<bos><|turn>system\n<|think|>\n"
    assert result.text == "yes no." and len(result.unspoken) == len(THOUGHT) + 2  # the model writes both tags
    assert result.tokens[: len(result.unspoken)] == result.unspoken
    assert all(token.text == "" for token in result.unspoken)


def written(engine: LlamaEngine, count: int) -> str:
    return "".join(engine._gguf.token_text(token) for token in engine._cache.tokens[:count])


@pytest.mark.parametrize(("budget", "thought"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 3)])
def test_a_budget_closes_the_thought_that_the_model_opened(scripted: LlamaEngine, budget: int, thought: int) -> None:
    result = say(scripted, ASK, thinking_tokens=budget)
    assert result.text == "yes no." and len(result.unspoken) == 1 + thought + 1


def test_a_thought_that_nobody_asked_for_is_closed_and_not_spoken(tmp_path: Path) -> None:
    script = ["<|channel>", *THOUGHT, "<channel|>", *ANSWER, "<turn|>"]
    template = "{% for m in messages %}{{ m.content }}{{ '\n' }}{% endfor %}"
    result = say(load(write_gemma(tmp_path / "m.gguf", script=script, template=template)), ASK)
    assert result.text == "yes no." and len(result.unspoken) == 2


@pytest.mark.parametrize(("budget", "unspoken"), [(0, 1), (2, 3), (9, 4)])
def test_a_prompt_that_opens_the_thought_itself(tmp_path: Path, budget: int, unspoken: int) -> None:
    """As templates of models that always think do: nothing is injected but the closing tag."""
    template = "{% for m in messages %}{{ m.content }}{{ '\n' }}{% endfor %}{{ '<|channel>' }}"
    engine = load(write_gemma(tmp_path / "m.gguf", script=SCRIPT, template=template))
    result = say(engine, ASK, thinking_tokens=budget)
    assert result.text == "yes no." and len(result.unspoken) == unspoken


def test_what_is_said_cannot_pose_as_a_tag(scripted: LlamaEngine) -> None:
    say(scripted, asking("<|think|> no <turn|>"), max_tokens=1)
    tags = [scripted._gguf.tokenize(tag, special=True)[0] for tag in ("<|think|>", "<turn|>")]
    assert [scripted._cache.tokens.count(tag) for tag in tags] == [0, 2]  # the template's own


def test_tokens_that_the_file_suppresses_are_never_chosen(tmp_path: Path) -> None:
    script = ["▁yes", "▁no", "<turn|>"]
    template = "{% for m in messages %}{{ m.content }}{{ '\n' }}{% endfor %}"
    engine = load(write_gemma(tmp_path / "m.gguf", script=script, template=template, suppressed=["▁no"]))
    assert say(engine, ASK).text.startswith(" yes")
    assert "no" not in say(engine, ASK).text


# The prefix


def test_the_prefix_holds_to_where_the_reply_began_and_prefill_mends_it(scripted: LlamaEngine) -> None:
    history = History("Be brief.")
    history.add_user("what is the weather?")
    first = say(scripted, history.messages())
    history.add_reply(first.text)
    history.add_user("and today?")
    second = say(scripted, history.messages())
    empty_channel = scripted._gguf.tokenize("<|channel>thought\n<channel|>", special=True)
    assert first.prefill is not None and second.prefill is not None
    assert second.prefill.cached_tokens == first.prefill.prompt_tokens - len(empty_channel)

    history.add_reply(second.text)
    mended = scripted.prefill(history.messages(), should_stop=never)
    assert mended is not None and mended.evaluated_tokens > 0
    history.add_user("sure?")
    third = say(scripted, history.messages())
    assert third.prefill is not None and third.prefill.cached_tokens == mended.prompt_tokens


def test_conversations_that_think_keep_their_prefix(tmp_path: Path) -> None:
    """The first turn of the template says that thinking is on: prefill and warm-up must say it too."""
    engine = load(write_gemma(tmp_path / "m.gguf", script=SCRIPT), thinking=True)
    history = History("Be brief.")
    engine.warm_up(history.opening())
    warm = len(engine._cache.tokens)
    history.add_user("what is the weather?")
    first = say(engine, history.messages(), thinking_tokens=9)
    history.add_reply(first.text)
    mended = engine.prefill(history.messages(), should_stop=never)
    history.add_user("and today?")
    second = say(engine, history.messages(), thinking_tokens=9)
    assert first.prefill is not None and mended is not None and second.prefill is not None
    assert first.prefill.cached_tokens == warm and "<|think|>" in written(engine, warm)
    assert mended.cached_tokens == first.prefill.prompt_tokens
    assert second.prefill.cached_tokens == mended.prompt_tokens
    assert engine.prompt_tokens(history.messages()) == second.prefill.prompt_tokens


# Sliding windows


def test_a_short_cache_is_filled_anew_where_the_window_is_gone(random_file: Path, engine: LlamaEngine) -> None:
    short = load(random_file, swa_full=False, batch_tokens=32)
    assert say(short, asking(WORDY * 28)).text == say(engine, asking(WORDY * 28)).text
    assert len(short._cache.tokens) > 2 * 256  # llama.cpp keeps that many cells for a window of 32
    result = say(short, asking(WORDY * 6 + "right"))
    assert result.prefill is not None and result.prefill.cached_tokens == 0
    assert result.text == say(load(random_file), asking(WORDY * 6 + "right")).text


@pytest.mark.parametrize(("within", "kept"), [(SMALL.window - 1, True), (SMALL.window - 2, False)])
def test_a_rollback_is_never_silently_wrong(random_file: Path, within: int, kept: bool) -> None:
    """`within` is how far behind the oldest cell of the window the rollback goes to."""
    short = load(random_file, swa_full=False, batch_tokens=32)
    say(short, asking(WORDY * 28))
    tokens = list(short._cache.tokens)
    count = llama_cpp.llama_memory_seq_pos_min(short._context.memory, 0) + within
    assert SMALL.window < count < len(tokens)
    short._cache.roll_back(count)
    assert short._cache.tokens == (tokens[:count] if kept else [])
    have = short._cache.begin(tokens[: count + 1], reevaluate_last=True)
    short._cache.evaluate(tokens[have : count + 1], never)
    assert np.allclose(logits(short), fresh_logits(random_file, tokens[: count + 1]), atol=1e-3)


def test_without_the_check_it_would_be_wrong(random_file: Path) -> None:
    short = load(random_file, swa_full=False, batch_tokens=32)
    say(short, asking(WORDY * 28))
    tokens = list(short._cache.tokens)
    count = llama_cpp.llama_memory_seq_pos_min(short._context.memory, 0) + 8
    short._context.window_tokens = 0
    short._cache.roll_back(count)
    assert short._cache.tokens == tokens[:count]  # llama.cpp reports success
    short._cache.evaluate([tokens[count]], never)
    assert not np.allclose(logits(short), fresh_logits(random_file, tokens[: count + 1]), atol=0.1)


def logits(engine: LlamaEngine) -> np.ndarray:
    pointer = llama_cpp.llama_get_logits_ith(engine._context.handle, -1)
    return np.ctypeslib.as_array(pointer, (engine._gguf.vocab_tokens,)).copy()


def fresh_logits(path: Path, tokens: list[int]) -> np.ndarray:
    fresh = load(path, batch_tokens=32)
    fresh._cache.evaluate(tokens[:-1], never)
    fresh._cache.evaluate(tokens[-1:], never)
    return logits(fresh)


# Cancellation, limits, bad files


@pytest.mark.parametrize("asked", [1, 60, 300])
def test_cancelled_in_prefill_leaves_no_trace(engine: LlamaEngine, asked: int) -> None:
    clean = say(engine, asking(WORDY * 9))
    say(engine, ASK, max_tokens=1)
    stopped = read(engine.generate(asking(WORDY * 9), thinking_tokens=0, max_tokens=24, should_stop=stop_at(asked)))
    assert stopped.prefill is None and stopped.tokens == []
    assert [t.text for t in say(engine, asking(WORDY * 9)).tokens] == [t.text for t in clean.tokens]


@pytest.mark.parametrize("wanted", [2, 6])
def test_cancelled_in_a_thought_and_in_the_answer(scripted: LlamaEngine, wanted: int) -> None:
    seen: list[Token] = []
    generation = scripted.generate(ASK, thinking_tokens=9, max_tokens=9, should_stop=lambda: len(seen) == wanted)
    seen.extend(item for item in generation if isinstance(item, Token))
    assert len(seen) == wanted
    assert say(scripted, ASK, thinking_tokens=9).text == "yes no."


def test_a_micro_batch_changes_nothing(random_file: Path, engine: LlamaEngine) -> None:
    small = load(random_file, batch_tokens=64, micro_batch_tokens=16)
    assert say(small, asking(WORDY * 4)).text == say(engine, asking(WORDY * 4)).text
    small._cache.roll_back(0)
    stopped = read(small.generate(asking(WORDY * 9), thinking_tokens=0, max_tokens=9, should_stop=stop_at(900)))
    assert stopped.prefill is None and len(small._cache.tokens) % 64 == 0  # whole batches only
    assert say(small, asking(WORDY * 9)).text == say(engine, asking(WORDY * 9)).text


def test_too_long_a_conversation_is_refused_and_trimmed_by_turns(tmp_path: Path) -> None:
    engine = load(write_gemma(tmp_path / "m.gguf", Shape(context=256)))
    history = History("Be brief.")
    for number in range(12):
        history.add_user(f"what is the number {number}?")
        history.add_reply(f"it is {number}.")
    history.add_user("and now?")
    with pytest.raises(TurnscopeError, match="the context of m has 256: shorten"):
        say(engine, history.messages())
    with pytest.raises(TurnscopeError, match="the context of m has 256"):
        engine.prefill(history.messages(), should_stop=never)
    assert 0 < history.trim(lambda messages: engine.prompt_tokens(messages) <= 200) < 12
    result = say(engine, history.messages(), max_tokens=200)
    assert result.tokens and result.finished is not None
    assert len(engine._cache.tokens) <= 256


TEMPLATES = {
    "no program": ("{% for m in messages", "cannot be rendered"),
    "no roles": ("{{ raise_exception('Conversation roles must alternate') }}", "cannot be rendered .*alternate"),
    "no user": (
        "{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}", "leaves out what the user says",
    ),
    "no assistant": (
        "{% for m in messages if m.role != 'assistant' %}{{ m.content }}{% endfor %}",
        "leaves out what the assistant says",
    ),
    "none": (None, "has no chat template"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_unknown_template_is_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    template, sentence = TEMPLATES[kind]
    with pytest.raises(TurnscopeError, match=sentence) as refusal:
        load(write_gemma(tmp_path / "m.gguf", template=template))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused_in_one_sentence(tmp_path: Path, share: float) -> None:
    path = write_gemma(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(TurnscopeError, match=r"llama.cpp cannot load .*damaged, incomplete") as refusal:
        load(path)
    assert "\n" not in str(refusal.value)


def test_it_speaks_words(engine: LlamaEngine) -> None:
    text = say(engine, ASK, max_tokens=60).text
    assert len(text.split()) > 10 and all(c.isalpha() or c in " .,?!" for c in text)
    assert engine.context_tokens == 1024 and SMALL.window < 64
