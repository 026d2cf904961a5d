"""The engine against the real `llama_cpp.server` on loopback: the same words as the local engine's, cancellation, and
its errors."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep

import pytest

from agent.errors import TurnscopeError
from agent.llm.http import HttpLlmEngine
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.llm.sampling import Sampling
from profiling.trace.clock import SystemClock
from tests.fakes.ticking import TickingClock
from tests.llm.http_server import say
from tests.llm.tiny_gguf import write_scripted

SCRIPT = ("▁yes", "▁well", "▁no", "▁maybe", "<|im_end|>")
LETTERS = [Message("user", "a b")]
QUESTION = [Message("system", "Answer in one short sentence."), Message("user", "What is the capital of France?")]
STORY = [Message("user", "Tell me a very long story.")]
START_S = 60.0


@pytest.fixture(scope="module")
def scripted_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripted(tmp_path_factory.mktemp("http") / "scripted.gguf", SCRIPT)


@pytest.fixture(scope="module")
def url(scripted_path: Path, gguf_path: Path) -> Iterator[str]:
    """A server of two models, of which it loads one at a time."""
    models = [
        {"model": str(path), "model_alias": name, "n_ctx": 512, "n_threads": 1, "n_threads_batch": 1, "verbose": False}
        for name, path in (("scripted", scripted_path), ("smollm2", gguf_path))
    ]
    config = scripted_path.with_name("server.json")
    config.write_text(json.dumps({"host": "127.0.0.1", "port": 0, "models": models}))
    log = scripted_path.with_name("server.log")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "llama_cpp.server", "--config_file", str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield f"{address(process, log)}/v1"
    finally:
        process.terminate()
        process.wait(30)


def address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the server listens, once it says so."""
    deadline = monotonic() + START_S
    while process.poll() is None and monotonic() < deadline:
        if listening := re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text()):
            return listening[1]
        sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")


def served(url: str, model: str) -> HttpLlmEngine:
    return HttpLlmEngine(url, model=model, clock=SystemClock())


def test_it_serves_two_models(url: str) -> None:
    with pytest.raises(TurnscopeError, match=r"serves several models \(scripted, smollm2\)"):
        HttpLlmEngine(url, clock=TickingClock())


def test_the_tokens_are_the_local_engines(url: str, scripted_path: Path) -> None:
    local = LlamaEngine(scripted_path, clock=TickingClock(), context_tokens=512)
    remote = served(url, "scripted")
    remote.warm_up([])
    here, there = say(local, LETTERS), say(remote, LETTERS)
    assert [token.text for token in there.tokens] == [token.text for token in here.tokens if token.text]
    assert there.finished == Finished("stop")
    assert say(remote, LETTERS, max_tokens=2).finished == Finished("length")


def test_a_real_model_answers_as_it_does_locally(url: str, gguf_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(_parameters: int, *, temperature: float, seed: int) -> Sampling:
        return Sampling(temperature, seed)

    monkeypatch.setattr(Sampling, "for_size", greedy)
    local = LlamaEngine(gguf_path, clock=TickingClock(), context_tokens=512, threads=1, prefill_threads=1)
    remote = served(url, "smollm2")
    assert say(remote, QUESTION).text == say(local, QUESTION).text == "The capital of France is Paris."
    local.close()


def test_times_are_of_this_clock_and_in_order(url: str) -> None:
    asked = served(url, "smollm2")
    before_ns = SystemClock().now_ns()
    result = say(asked, STORY, max_tokens=8)
    assert result.prefill is not None and len(result.tokens) == 8
    times = [before_ns, result.prefill.taken_ns, result.prefill.start_ns, result.prefill.end_ns]
    times += [time for token in result.tokens for time in (token.start_ns, token.end_ns)]
    assert times == sorted(times) and times[-1] <= SystemClock().now_ns()


def test_a_cancelled_reply_leaves_the_server_to_the_next_one(url: str) -> None:
    asked = served(url, "smollm2")
    heard: list[Prefill | Token | Finished] = []
    for item in asked.generate(STORY, thinking_tokens=0, max_tokens=400, should_stop=lambda: len(heard) > 3):
        heard.append(item)
    assert heard[-1] == Finished("cancelled") and kinds(heard) == [Prefill, Token, Token, Token, Finished]
    assert "Paris" in say(asked, QUESTION).text


def kinds(items: Sequence[object]) -> list[type]:
    return [type(item) for item in items]


def test_a_conversation_longer_than_its_context(url: str) -> None:
    asked = served(url, "scripted")
    long = [Message("user", "a " * 700)]
    with pytest.raises(TurnscopeError, match=r"does not fit into the context .*maximum context length is 512 tokens"):
        say(asked, long)
    assert asked.context_tokens == asked.prompt_tokens(long)
    assert "yes" in say(asked, QUESTION).text


def test_an_address_without_v1(url: str) -> None:
    with pytest.raises(TurnscopeError, match=r"/models is not there, says the server \(404 \(Not Found\)\)"):
        HttpLlmEngine(url.removesuffix("/v1"), clock=TickingClock())
