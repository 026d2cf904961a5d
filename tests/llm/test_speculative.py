"""Speculative decoding changes when tokens come, and nothing else: a draft model, Gemma's heads in a file of their own,
and a head in the model's own file."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from agent.errors import TurnscopeError
from agent.llm import speculative
from agent.llm.context import ContextSettings
from agent.llm.gguf import GgufModel
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Message, Token
from profiling.trace import vocabulary as v
from tests.fakes.ticking import TickingClock, never, stop_at
from tests.llm.reading import Read, read
from tests.tiny_models.gemma import Shape, write_gemma
from tests.tiny_models.multi_token import write_gemma_heads, write_with_head

THOUGHT, ANSWER = ["thought", "▁well", "▁so", "▁they", "▁may"], ["▁yes", "▁no", "▁the", "▁of", "▁and", "▁in", "."]
SCRIPT = ["<|channel>", *THOUGHT, "<channel|>", *ANSWER, "<turn|>"]
ASK = [Message("system", "Be brief."), Message("user", "hello there, what is the weather today?")]
LONG = [ASK[0], Message("user", "hello there, what is the weather today? " * 20)]


@dataclass
class Pair:
    """The same model with a draft and without."""

    plain: LlamaEngine
    drafting: LlamaEngine


def load(path: Path, **settings: object) -> LlamaEngine:
    return LlamaEngine(path, clock=TickingClock(), flash_attention=True, **settings)  # type: ignore[arg-type]


def say(engine: LlamaEngine, messages: list[Message], thinking_tokens: int = 0, max_tokens: int = 40) -> Read:
    return read(engine.generate(messages, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=never))


def counts(result: Read) -> tuple[object, object]:
    assert result.finished is not None
    attributes = result.finished.attributes
    return attributes[v.LLM_DRAFTED_TOKENS], attributes[v.LLM_ACCEPTED_TOKENS]


def with_draft_model(folder: Path, script: list[str]) -> tuple[Path, Path]:
    model = write_gemma(folder / "model.gguf", script=script, weights=GGMLQuantizationType.Q8_0)
    if script:
        return model, write_gemma(folder / "draft.gguf", Shape(layers=3), script=script)
    return model, Path(shutil.copy(model, folder / "draft.gguf"))


def with_heads(folder: Path, script: list[str]) -> tuple[Path, Path]:
    model = write_gemma(folder / "model.gguf", script=script, weights=GGMLQuantizationType.Q8_0)
    return model, write_gemma_heads(folder / "heads.gguf", script=script)


def with_own_head(folder: Path, script: list[str]) -> tuple[Path, Path]:
    model = write_with_head(folder / "model.gguf", script=script)
    return model, model


KINDS: dict[str, Callable[[Path, list[str]], tuple[Path, Path]]] = {
    "draft model": with_draft_model,
    "heads": with_heads,
    "own head": with_own_head,
}


@pytest.fixture(params=KINDS, scope="module")
def random(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    model, draft = KINDS[request.param](tmp_path_factory.mktemp("random"), [])
    return Pair(load(model), load(model, draft=draft))


@pytest.fixture(params=KINDS, scope="module")
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    model, draft = KINDS[request.param](tmp_path_factory.mktemp("scripted"), SCRIPT)
    return Pair(load(model), load(model, draft=draft))


def test_the_reply_is_the_same_whatever_is_drafted(random: Pair) -> None:
    for messages in (ASK, LONG, ASK):
        plain, drafted = say(random.plain, messages), say(random.drafting, messages)
        assert [t.text for t in drafted.tokens] == [t.text for t in plain.tokens]
        assert drafted.finished is not None and plain.finished is not None
        assert drafted.finished.reason == plain.finished.reason and plain.finished.attributes == {}
        assert random.drafting._cache.tokens == random.plain._cache.tokens


def test_accepted_tokens_are_counted(scripted: Pair) -> None:
    result = say(scripted.drafting, ASK)
    assert result.text == " yes no the of and in." and counts(result) == (5, 5)
    # Chosen from the prompt's logits, a draft of four and the model's own, then what is left of the script.
    starts = [token.weight_bytes != 0 for token in result.tokens]
    assert starts == [False, True, False, False, False, False, True, False]


@pytest.mark.parametrize("budget", [1, 2, 5, 6, 50])
def test_thinking_and_its_budget_work_with_drafts(scripted: Pair, budget: int) -> None:
    plain, drafted = say(scripted.plain, ASK, budget), say(scripted.drafting, ASK, budget)
    assert [(t.text, t.unspoken) for t in drafted.tokens] == [(t.text, t.unspoken) for t in plain.tokens]
    assert drafted.text == "yes no the of and in." and scripted.drafting._cache.tokens == scripted.plain._cache.tokens


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_the_limit_of_tokens_holds(scripted: Pair, limit: int) -> None:
    plain, drafted = say(scripted.plain, ASK, max_tokens=limit), say(scripted.drafting, ASK, max_tokens=limit)
    assert [t.text for t in drafted.tokens] == [t.text for t in plain.tokens]
    assert drafted.finished is not None and drafted.finished.reason == "length"
    assert scripted.drafting._cache.tokens == scripted.plain._cache.tokens


def test_the_prefix_survives_a_turn(random: Pair) -> None:
    first = say(random.drafting, ASK)
    again = say(random.drafting, [*ASK, Message("assistant", first.text.strip()), Message("user", "and today?")])
    other = say(random.plain, [*ASK, Message("assistant", first.text.strip()), Message("user", "and today?")])
    assert again.text == other.text and again.prefill is not None and first.prefill is not None
    assert first.prefill.prompt_tokens is not None and again.prefill.cached_tokens is not None
    assert again.prefill.cached_tokens >= first.prefill.prompt_tokens - 4  # but for the empty channel


@pytest.mark.parametrize("asked", [1, 30, 60])
def test_cancelled_in_prefill_leaves_no_trace(random: Pair, asked: int) -> None:
    say(random.drafting, ASK, max_tokens=1)
    stopped = read(random.drafting.generate(LONG, thinking_tokens=0, max_tokens=40, should_stop=stop_at(asked)))
    assert stopped.prefill is None
    assert say(random.drafting, LONG).text == say(random.plain, LONG).text


@pytest.mark.parametrize("wanted", [1, 2, 3, 4, 5, 7])
def test_cancelled_in_decode_stops_before_the_next_token(scripted: Pair, wanted: int) -> None:
    """Within a draft whose tokens are all there, too."""
    seen: list[Token] = []
    for item in scripted.drafting.generate(
        ASK, thinking_tokens=0, max_tokens=40, should_stop=lambda: len(seen) >= wanted
    ):
        if isinstance(item, Token):
            seen.append(item)
    assert len(seen) == wanted
    assert say(scripted.drafting, ASK).text == " yes no the of and in."


def test_cancelled_in_a_draft_or_in_its_verification(random: Pair) -> None:
    clean = say(random.plain, ASK)
    for asked in range(60, 1200, 150):
        say(random.drafting, LONG, max_tokens=1)
        stopped = read(random.drafting.generate(ASK, thinking_tokens=0, max_tokens=40, should_stop=stop_at(asked)))
        texts = [t.text for t in stopped.tokens]
        assert texts == [t.text for t in clean.tokens[: len(texts)]]
        assert say(random.drafting, ASK).text == clean.text


def test_a_reply_ends_where_the_context_ends(tmp_path: Path) -> None:
    model, heads = with_heads(tmp_path, [])
    plain = say(load(model, context_tokens=64), ASK, max_tokens=100)
    drafted = say(load(model, context_tokens=64, draft=heads), ASK, max_tokens=100)
    assert [t.text for t in drafted.tokens] == [t.text for t in plain.tokens]


def test_heads_go_on_from_the_state_of_the_position_before(tmp_path: Path) -> None:
    """These draft from the hidden state alone, which is that of the token before the last."""
    for model, draft in (
        (
            write_gemma(tmp_path / "a.gguf", script=SCRIPT),
            write_gemma_heads(tmp_path / "h.gguf", script=SCRIPT, ahead=2),
        ),
        (write_with_head(tmp_path / "b.gguf", script=SCRIPT, ahead=2),) * 2,
    ):
        engine = load(model, draft=draft, draft_tokens=1)
        for messages in (ASK, LONG, ASK):
            result = say(engine, messages)
            drafted, accepted = counts(result)
            assert result.text == " yes no the of and in." and drafted == accepted == 3


def test_small_batches_are_raised_to_what_is_verified(tmp_path: Path) -> None:
    model, draft = with_draft_model(tmp_path, SCRIPT)
    engine = load(model, draft=draft, batch_tokens=1)
    result = say(engine, ASK)
    assert result.text == " yes no the of and in." and counts(result) == (5, 5)
    more = load(model, draft=draft, batch_tokens=1, draft_tokens=64, context_tokens=64)
    assert say(more, ASK).text == " yes no the of and in."


def test_the_gpu_is_the_drafts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, draft = with_draft_model(tmp_path, SCRIPT)
    target, asked = load(model)._context, {}

    def opened(path: Path, **settings: object) -> GgufModel:
        asked.update(settings)
        return GgufModel(path)

    monkeypatch.setattr(speculative, "GgufModel", opened)
    speculative.open_drafter(draft, target, ContextSettings(), gpu_layers=5, main_gpu=1).close()
    assert asked == {"gpu_layers": 5, "main_gpu": 1, "multi_token_heads": False}


def test_what_drafting_reads_is_the_first_tokens_of_the_draft(tmp_path: Path) -> None:
    model, draft = with_draft_model(tmp_path, SCRIPT)
    engine, small = load(model, draft=draft), load(draft)
    result = say(engine, ASK)
    assert result.prefill is not None and result.prefill.prompt_tokens is not None
    assert engine.weight_bytes_per_token is not None and small.weight_bytes_per_token is not None
    depth, embedding_row = result.prefill.prompt_tokens, 64 * 34 // 32  # 64 elements of Q8_0
    assert result.tokens[1].weight_bytes == (
        engine.weight_bytes_per_token + 4 * embedding_row + 4 * small.weight_bytes_per_token
    )
    kv = [engine.kv_bytes(depth + 5), *(small.kv_bytes(depth + at) for at in (1, 2, 3, 4))]
    assert result.tokens[1].kv_bytes == sum(bytes_ for bytes_ in kv if bytes_ is not None)
    assert [(token.weight_bytes, token.kv_bytes) for token in result.tokens[2:6]] == [(0, 0)] * 4


def test_the_real_model_says_the_same(gguf_path: Path, tmp_path: Path) -> None:
    """With its own copy as the draft, and penalties against repetition in the sampler."""
    copy = Path(shutil.copy(gguf_path, tmp_path / "copy.gguf"))
    plain, drafting = load(gguf_path, context_tokens=256), load(gguf_path, context_tokens=256, draft=copy)
    for words in ("Tell me a story about a dragon.", "What is the capital of France?"):
        ask = [Message("user", words)]
        expected, got = say(plain, ask), say(drafting, ask)
        assert got.text == expected.text
        drafted, accepted = counts(got)
        assert isinstance(drafted, int) and isinstance(accepted, int) and 0 < accepted <= drafted


def test_a_draft_that_does_not_fit_is_refused_in_one_sentence(tmp_path: Path) -> None:
    model, other = write_gemma(tmp_path / "model.gguf"), write_with_head(tmp_path / "other.gguf")
    vocabulary = write_gemma(tmp_path / "vocabulary.gguf", Shape(vocabulary=2000))
    wrong = (
        (model, vocabulary, "cannot draft for .*their vocabularies differ"),
        (model, write_gemma_heads(tmp_path / "wide.gguf", width=96), "heads of .* do not fit"),
        (other, write_gemma_heads(tmp_path / "heads.gguf"), "heads of .* do not fit"),
        (model, model, "has no multi-token head"),
        (model, tmp_path / "absent.gguf", "cannot be read .No such file"),
        (model, tmp_path, "is not a file"),
        (
            model,
            Path(shutil.copy(model, tmp_path / "part-00001-of-00002.gguf")),
            "part-00002-of-00002.* cannot be read",
        ),
    )
    for path, draft, sentence in wrong:
        with pytest.raises(TurnscopeError, match=sentence) as refusal:
            load(path, draft=draft)
        assert "\n" not in str(refusal.value)


def test_heads_alone_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match="only drafts for another model"):
        load(write_gemma_heads(tmp_path / "heads.gguf"))
