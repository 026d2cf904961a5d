"""Random weights with which the real engines run: words are recognised and spoken, the voice is heard and goes on."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_checkpoint import load
from agent.experiments.full_size import gguf_file, nemotron_file, voxcpm_folder
from agent.experiments.full_size.shapes import FULL_SIZE
from agent.experiments.full_size.words import SPOKEN, STOPS
from agent.llm.gguf_header import GgufHeader
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Finished, Message, Token
from agent.scenario import load_scenario
from agent.tts.protocol import Patch
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import skeleton
from profiling.trace.clock import SystemClock
from tests.experiments import tiny
from tests.fakes.ticking import never

SOUND = load_scenario("go-forward").utterances[0].recording.samples


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaEngine]:
    path = tmp_path_factory.mktemp("llm") / gguf_file.FILE
    gguf_file.write(path, tiny.LLM)
    engine = LlamaEngine(path, clock=SystemClock(), threads=1, prefill_threads=1, gpu_layers=0)
    yield engine
    engine.close()


def test_the_language_model_says_words_and_does_not_end(llama: LlamaEngine) -> None:
    items = list(llama.generate([Message("user", "hello")], thinking_tokens=0, max_tokens=60, should_stop=never))
    text = "".join(item.text for item in items if isinstance(item, Token))
    for mark in STOPS:
        text = text.replace(mark, " ")
    words = text.split()
    assert set(words) <= set(SPOKEN) and len(set(words)) > 15
    assert items[-1] == Finished("length")


def test_what_it_says_depends_on_what_it_is_told(llama: LlamaEngine) -> None:
    said = {
        "".join(
            item.text
            for item in llama.generate([Message("user", told)], thinking_tokens=0, max_tokens=8, should_stop=never)
            if isinstance(item, Token)
        )
        for told in ("hello", "what time is it", "no")
    }
    assert len(said) == 3


def test_the_file_has_the_bytes_that_are_foretold(tmp_path: Path) -> None:
    path = tmp_path / gguf_file.FILE
    gguf_file.write(path, tiny.LLM)
    tensors = GgufHeader(path).tensors
    of_layers = sum(tensor.bytes or 0 for tensor in tensors if tensor.name != "token_embd.weight")
    assert of_layers == gguf_file.size_bytes(tiny.LLM)
    assert of_layers < path.stat().st_size


def test_the_published_sizes() -> None:
    assert gguf_file.size_bytes(FULL_SIZE.llm) / 1e9 == pytest.approx(6.70, abs=0.005)
    parameters = sum(np.prod(tensor.shape) for tensor in gguf_file.tensors_of(FULL_SIZE.llm, FULL_SIZE.llm.vocabulary))
    assert parameters / 1e9 == pytest.approx(11.907, abs=0.0005)
    voice = sum(p.numel() for p in skeleton(voxcpm_folder.config(FULL_SIZE.tts)).parameters())
    assert voice / 1e6 == pytest.approx(2384, abs=0.5)
    assert nemotron_file.size_bytes(FULL_SIZE.asr) / 1e9 == pytest.approx(2.552, rel=0.02)


def test_the_recogniser_hears_words_at_every_chunk_size(tmp_path: Path) -> None:
    path = tmp_path / nemotron_file.FILE
    nemotron_file.write(path, tiny.ASR, SOUND)
    assert [entry.name for entry in tmp_path.iterdir()] == [nemotron_file.FILE]
    library = load(path, "cpu")
    seconds = len(SOUND) / 16_000
    for chunk_ms in (80, 160, 320, 560, 1120):
        engine = NemotronEngine(library, clock=SystemClock(), chunk_ms=chunk_ms, threads=1)
        heard = engine.open().finalize(SOUND, never)
        assert 1 <= heard.tokens < 12 * seconds, heard
        assert len(set(heard.text.split())) > heard.tokens / 4


def test_the_voice_is_audible_at_once_and_does_not_stop(tmp_path: Path) -> None:
    voxcpm_folder.write(tmp_path, tiny.TTS)
    engine = VoxCpmEngine(tmp_path, clock=SystemClock(), threads=1, diffusion_steps=4, max_patches=6)
    patches = [item for item in islice(engine.synthesise("hello", never), 20) if isinstance(item, Patch)]
    assert len(patches) == 6
    for patch in patches:
        assert np.isfinite(patch.samples).all()
        assert 10 * np.log10(np.mean(np.square(patch.samples))) > -40
    assert 10 * np.log10(np.mean(np.square(patches[0].samples[:480]))) > -50
