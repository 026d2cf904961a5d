"""Other GGUF files than the small model: scripted ones, and damaged ones or those of the wrong kind, which are refused
with a sentence."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import pytest

from agent.errors import TurnscopeError
from agent.llm.context import ContextSettings
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Message
from tests.fakes.ticking import TickingClock, never
from tests.llm.reading import Read, read
from tests.llm.tiny_gguf import write_embedder, write_scripted

ASK = [Message("user", "a b")]
ANSWER = ("▁yes", "▁no", "<|im_end|>")


def load(path: Path, **settings: float | None) -> LlamaEngine:
    return LlamaEngine(path, clock=TickingClock(), **settings)  # type: ignore[arg-type]


def say(engine: LlamaEngine, thinking_tokens: int = 0, max_tokens: int = 30) -> Read:
    return read(engine.generate(ASK, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=never))


def test_characters_of_several_tokens_and_control_tokens(tmp_path: Path) -> None:
    letters = [f"<0x{byte:02X}>" for byte in "é日😀".encode()]
    result = say(load(write_scripted(tmp_path / "m.gguf", ["▁yes", *letters, "<|odd|>", *ANSWER[1:]])))
    assert [token.text for token in result.tokens if token.text] == [" yes", "é", "日", "😀", " no"]
    assert len(result.tokens) == len(letters) + 4


@pytest.mark.parametrize(("budget", "thought"), [(0, 0), (2, 2), (9, 3)])
def test_a_model_that_thinks_by_itself(tmp_path: Path, budget: int, thought: int) -> None:
    """Its tags are control tokens. With a budget the opening tag is injected and it closes by itself or is closed."""
    script = ["<think>", "▁well", "▁so", "</think>", *ANSWER]
    result = say(load(write_scripted(tmp_path / "m.gguf", script)), thinking_tokens=budget)
    assert result.text == "yes no"
    tags = 1 if budget == 9 else 2  # the closing tag that the model writes is one of its three tokens
    assert len(result.unspoken) == tags + thought


def test_a_reply_has_at_least_one_word(tmp_path: Path) -> None:
    result = say(load(write_scripted(tmp_path / "m.gguf", ["<|im_end|>"])), max_tokens=1)
    assert result.tokens and result.finished is not None and result.finished.reason == "length"


def test_a_vocabulary_that_puts_spaces_before_texts(tmp_path: Path) -> None:
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER, adds_space=True))
    assert say(engine).text == " yes no"
    again = say(engine)
    assert again.prefill is not None and again.prefill.evaluated_tokens == 1


def test_what_is_said_cannot_pose_as_the_templates_tokens(tmp_path: Path) -> None:
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER))
    tag = engine.prompt_tokens([Message("user", "<|im_end|>")]) - engine.prompt_tokens([Message("user", "")])
    assert tag == len("<|im_end|>")  # byte by byte


def test_the_context_is_the_models_own_when_it_is_short(tmp_path: Path) -> None:
    path = write_scripted(tmp_path / "m.gguf", ANSWER, context=128)
    assert load(path).context_tokens == 128
    for wanted in (0, 129):
        with pytest.raises(TurnscopeError, match="choose from 1 to 128"):
            load(path, context_tokens=wanted)


@pytest.mark.parametrize(
    ("setting", "value"), [("temperature", -0.1), ("temperature", 9.0), ("seed", -1), ("seed", 2**32)]
)
def test_impossible_settings(tmp_path: Path, setting: str, value: float) -> None:
    with pytest.raises(TurnscopeError, match=f"The {setting} {value} is not possible"):
        load(write_scripted(tmp_path / "m.gguf", ANSWER), **{setting: value})


@pytest.mark.parametrize("layers", [-1, 1, 99])
def test_layers_for_a_gpu_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: False)
    path = write_scripted(tmp_path / "m.gguf", ANSWER)
    with pytest.raises(TurnscopeError, match=r"without GPU support or finds no GPU: set gpu_layers to 0") as refusal:
        load(path, gpu_layers=layers)
    assert "\n" not in str(refusal.value)
    assert load(path)._gguf.gpu_layers == 0 and load(path, gpu_layers=0)._gguf.gpu_layers == 0


def test_all_layers_go_to_a_gpu_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This library has none, and evaluates them itself."""
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    path = write_scripted(tmp_path / "m.gguf", ANSWER)
    assert [load(path, gpu_layers=n)._gguf.gpu_layers for n in (None, -1, 3)] == [-1, -1, 3]
    assert load(path)._context.batch_tokens > load(path, gpu_layers=0)._context.batch_tokens
    assert say(load(path)).text == " yes no"


@pytest.mark.parametrize(
    "settings",
    [
        {"flash_attention": True},
        {"flash_attention": False},
        {"swa_full": False},
        {"batch_tokens": 1},
        {"batch_tokens": 7, "micro_batch_tokens": 3},
        {"micro_batch_tokens": 999},
        {"threads": 1},
    ],
)
def test_settings_change_no_word(tmp_path: Path, settings: dict[str, int]) -> None:
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER), **settings)
    assert say(engine).text == " yes no" and say(engine).text == " yes no"


def test_without_layers_on_a_gpu_it_gets_no_work(tmp_path: Path) -> None:
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER))
    none = engine._context.parameters(ContextSettings())
    engine._gguf.gpu_layers = 1
    some = engine._context.parameters(ContextSettings())
    assert not none.op_offload and not none.offload_kqv and some.op_offload and some.offload_kqv


def test_spaces_without_a_token_are_spelled_in_three_bytes(tmp_path: Path) -> None:
    model = load(write_scripted(tmp_path / "m.gguf", ANSWER))._gguf
    tokens = model.tokenize(" " * 40, special=False)
    assert len(tokens) == 3 * 40 and model.tokenize("", special=False) == []


def test_a_thinking_budget_that_does_not_fit_is_named(tmp_path: Path) -> None:
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER))
    with pytest.raises(
        TurnscopeError, match=r"thought of 600 tokens does not fit .* has 512: lower the thinking budget"
    ):
        say(engine, thinking_tokens=600)
    assert say(engine).text == " yes no"


def truncated(share: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        data = write_scripted(path, ANSWER).read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    return write


def with_a_broken_header(path: Path) -> None:
    data = bytearray(write_scripted(path, ANSWER).read_bytes())
    data[8:16] = struct.pack("<Q", 2**40)  # the number of tensors
    path.write_bytes(data)


WRONG_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "absent": (lambda path: None, "cannot be read .No such file"),
    "a folder": (lambda path: path.mkdir(), "is not a file"),
    "empty": (lambda path: path.touch(), "is not a GGUF file"),
    "of another kind": (lambda path: path.write_text("Hello, this is text."), "is not a GGUF file"),
    "only a beginning": (lambda path: path.write_bytes(b"GGUF"), "llama.cpp cannot load .*damaged, incomplete"),
    "cut within the header": (truncated(0.01), "llama.cpp cannot load .*damaged, incomplete"),
    "cut within the weights": (
        truncated(0.9),
        "llama.cpp cannot load .*not within the file bounds.*damaged, incomplete",
    ),
    "with a broken header": (with_a_broken_header, "llama.cpp cannot load .*damaged, incomplete"),
    "only a vocabulary": (
        lambda path: write_scripted(path, ANSWER, layers=False),
        "cannot load .*not found.*no language model",
    ),
    "an embedding model": (write_embedder, "architecture bert.* does not write text from left to right"),
    "not causal": (
        lambda path: write_scripted(path, ANSWER, metadata={"llama.attention.causal": False}),
        "does not write text from left to right",
    ),
    "unable to spell": (
        lambda path: write_scripted(path, ANSWER, bytes_known=100),
        "vocabulary of .* lacks tokens for single bytes",
    ),
    "no chat model": (lambda path: write_scripted(path, ANSWER, template=None), "has no chat template"),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_a_file_that_cannot_serve_is_refused_in_one_sentence(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write, sentence = WRONG_FILES[kind]
    path = tmp_path / "wrong.gguf"
    write(path)
    with pytest.raises(TurnscopeError, match=sentence) as refusal:
        load(path)
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value) and str(refusal.value).endswith(".")
    assert capfd.readouterr() == ("", "")


def test_the_library_waits_passively_and_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert os.environ["OMP_WAIT_POLICY"]
    engine = load(write_scripted(tmp_path / "m.gguf", ANSWER))
    assert say(engine).text == " yes no"
    engine.close()
    assert capfd.readouterr() == ("", "")
