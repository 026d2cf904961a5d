"""The counted work against what PyTorch itself counts while the real engines run, and against published figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

from agent.asr.nemotron import NemotronEngine
from agent.experiments.full_size import gguf_file, nemotron_file, voxcpm_folder
from agent.experiments.full_size.shapes import FULL_SIZE
from agent.experiments.workload.laws import AsrLaw, LlmLaw, TtsLaw
from agent.experiments.workload.weights import of_gguf
from agent.llm.gguf_header import GgufHeader
from agent.scenario import load_scenario
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import skeleton
from profiling.trace.clock import SystemClock
from profiling.workload import VoxCpmSize, Weight, attention, voxcpm_patch
from tests.experiments import tiny
from tests.fakes.ticking import never

SOUND = load_scenario("go-forward").utterances[0].recording.samples


@pytest.fixture(scope="module")
def asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asr") / nemotron_file.FILE
    nemotron_file.write(path, tiny.ASR, SOUND)
    return path


@pytest.fixture(scope="module")
def tts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tts")
    voxcpm_folder.write(folder, tiny.TTS)
    return folder


class Counter:
    """Operations that PyTorch counts inside some functions, by their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flops: dict[str, int] = {}
        self._mode = FlopCounterMode(display=False)
        self._monkeypatch = monkeypatch

    def inside(self, owner: Any, name: str, called: str) -> None:
        function = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            before = self._mode.get_total_flops()
            given = function(*arguments, **named)
            self.flops[called] = self.flops.get(called, 0) + self._mode.get_total_flops() - before
            return given

        self._monkeypatch.setattr(owner, name, counted)

    def run(self, once: Callable[[], Any]) -> Any:
        with self._mode:
            return once()


@pytest.mark.parametrize("chunk_ms", [80, 320, 1120])
def test_a_pass_of_the_encoder(asr: Path, chunk_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NemotronEngine(asr, clock=SystemClock(), chunk_ms=chunk_ms, threads=1)
    stream, sound = engine.open(), np.tile(SOUND, 2)
    second = engine.chunk_end(engine.chunk_end(1) + 1)
    stream.step(sound[:second], never)
    counter, library = Counter(monkeypatch), engine._model.library
    counter.inside(library.encoder, "cache_aware_stream_step", "encoder")
    counter.inside(library.prompt_kernel, "forward", "encoder")
    heard = counter.run(lambda: stream.step(sound[second : engine.chunk_end(second + 1)], never))
    law = AsrLaw(asr).a_pass(chunk_ms, heard.tokens)["encoder"]
    assert law.work.flops == pytest.approx(counter.flops["encoder"], rel=0.03)


def test_a_pass_reads_every_weight_of_the_encoder_once(asr: Path) -> None:
    short, long = (AsrLaw(asr).a_pass(ms, 0)["encoder"].work for ms in (80, 1120))
    assert short.bytes == long.bytes and short.flops < long.flops


def test_a_patch_by_part(tts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = VoxCpmEngine(tts, clock=SystemClock(), threads=1, diffusion_steps=5, max_patches=8)
    items = engine.synthesise("you can say what you like", never)
    for _ in range(3):
        next(items)
    counter, model = Counter(monkeypatch), engine._model
    for part, module in {
        "stop_check": model.stop_proj,
        "diffusion": model.feat_decoder,
        "local_encoder": model.feat_encoder,
    }.items():
        counter.inside(module, "forward", part)
    for part, module in {"base_lm": model.base_lm, "residual_lm": model.residual_lm}.items():
        counter.inside(module, "forward_step", part)
    counter.inside(model.audio_vae, "decode", "vae")
    patch = counter.run(lambda: next(items))
    items.close()
    assert patch.forwards == 4
    # PyTorch does not count its attention on a CPU.
    shape = {"heads": tiny.TTS.heads, "kv_heads": tiny.TTS.kv_heads, "head_size": tiny.TTS.head, "element_bytes": 4}
    for part, layers in {"base_lm": tiny.TTS.layers, "residual_lm": tiny.TTS.residual_layers}.items():
        counter.flops[part] += round(attention(1, tiny.TTS.kv_positions, **shape, layers=layers).flops)
    for part, term in TtsLaw(tts).patch(4, first=False).items():
        assert term.work.flops == pytest.approx(counter.flops[part], rel=0.1), part


def test_the_first_patch_has_no_step_of_the_language_models(tts: Path) -> None:
    assert TtsLaw(tts).patch(4, first=True).keys() == {"diffusion", "local_encoder", "vae"}


def test_the_bytes_of_a_full_size_patch_are_those_published() -> None:
    """4,038 MB, 424 MB for each forward and 302 MB of KV; the VAE decoder's 1.44 GMAC."""
    model = skeleton(voxcpm_folder.config(FULL_SIZE.tts))
    weights = [
        Weight(name, tuple(tensor.shape), 4 if name.startswith("audio_vae.") else 2)
        for name, tensor in model.state_dict().items()
    ]
    size = VoxCpmSize(
        heads=16, kv_heads=2, head_size=128, layers=28, residual_layers=8, kv_positions=8192, patch_frames=4
    )
    total = {steps: sum(w.bytes for w in voxcpm_patch(weights, size, steps).values()) / 1e6 for steps in (0, 9)}
    assert total[0] == pytest.approx(4038 + 302, rel=0.002)
    assert (total[9] - total[0]) / 9 == pytest.approx(424, rel=0.002)
    assert voxcpm_patch(weights, size, 9)["vae"].flops / 2e9 == pytest.approx(1.44, rel=0.02)


def test_the_language_model_reads_its_weights_once_a_token(tmp_path: Path) -> None:
    path = tmp_path / gguf_file.FILE
    gguf_file.write(path, tiny.LLM)
    law, matrices = LlmLaw(path, 8), [weight for weight in of_gguf(GgufHeader(path)) if len(weight.shape) > 1]
    everything = sum(weight.bytes for weight in of_gguf(GgufHeader(path)))
    assert law.weight_bytes == everything
    assert law.parameters + law.head_parameters == sum(weight.elements for weight in matrices)
    assert law.head_parameters == max(np.prod(weight.shape) for weight in matrices)
    token = law.token(law.kv_bytes(10)).work
    assert token.bytes == everything + law.kv_bytes(10) and token.flops == 2 * (law.parameters + law.head_parameters)
    prompt = law.prefill(20).work  # in three batches
    assert prompt.bytes == 3 * everything and prompt.flops == 2 * law.parameters * 20
