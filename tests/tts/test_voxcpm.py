"""The VoxCPM2 engine on a tiny checkpoint: streamed is one-shot, every part is timed, and no phrase leaves a trace."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.tts.protocol import DiffusionTts, Patch, Setup
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import VoxCPM2Model, load
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from tests.fakes.ticking import TickingClock, never
from tests.tiny_models.voxcpm import EARLIEST_END, PATCH_SAMPLES, SAMPLE_RATE, TINY, write_voxcpm

TEXT = "hello there, this is a test."
PARTS = ["stop_check", "base_lm", "residual_lm", "diffusion", "local_encoder", "vae"]
MS = 1_000_000
Samples = NDArray[np.float32]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads on so small tensors only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> VoxCPM2Model:
    """Says phrases of four patches."""
    return load(write_voxcpm(tmp_path_factory.mktemp("ends") / "tiny"), "cpu")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> VoxCPM2Model:
    """Never ends a phrase of its own accord."""
    return load(write_voxcpm(tmp_path_factory.mktemp("endless") / "tiny", stop="never"), "cpu")


def engine(model: VoxCPM2Model, **settings: Any) -> VoxCpmEngine:
    return VoxCpmEngine(model, clock=TickingClock(), **{"diffusion_steps": 4, **settings})


def sound(items: Iterator[Setup | Patch]) -> Samples:
    return np.concatenate([item.samples for item in items if isinstance(item, Patch)])


def said(engine: VoxCpmEngine, text: str = TEXT) -> Samples:
    return sound(engine.synthesise(text, never))


def patches(engine: VoxCpmEngine, text: str = TEXT) -> list[Patch]:
    return [item for item in engine.synthesise(text, never) if isinstance(item, Patch)]


def one_shot(model: VoxCPM2Model, seed: int = 0, patches: int = 20) -> tuple[Samples, torch.Tensor]:
    """The library's own sound of the text, decoded in one piece, and its latents (patches, 4, 64)."""
    torch.manual_seed(seed)
    samples, _, latents = model.generate_with_prompt_cache(
        target_text=TEXT, prompt_cache=None, inference_timesteps=4, max_len=patches
    )
    return samples.squeeze(0).numpy(), latents


@pytest.mark.parametrize(("kind", "count"), [("model", EARLIEST_END), ("endless", 12)])
def test_streamed_equals_one_shot(kind: str, count: int, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    whole, _ = one_shot(model, seed=3, patches=count)
    streamed = said(engine(model, seed=3, max_patches=count))
    assert streamed.shape == whole.shape == (count * PATCH_SAMPLES,)
    assert np.abs(streamed - whole).max() <= 1e-5


def test_patches_join_without_a_seam(endless: VoxCPM2Model) -> None:
    """After each boundary the sound is that of the whole; without the decoder's state it would not be."""
    streamed = said(engine(endless, max_patches=12))
    whole, latents = one_shot(endless, patches=12)
    with torch.inference_mode():
        apart = np.concatenate([endless.audio_vae.decode(one.T[None].float()).reshape(-1) for one in latents])
    for boundary in range(PATCH_SAMPLES, len(whole), PATCH_SAMPLES):
        around = slice(boundary - 480, boundary + 480)
        assert np.abs(streamed[around] - whole[around]).max() <= 1e-5
        assert np.abs(apart[around] - whole[around]).max() > 0.01


def test_items_have_the_form_of_the_protocol(model: VoxCPM2Model) -> None:
    speaking = engine(model, name="big", guidance=1.5, seed=7)
    assert (speaking.model, speaking.sample_rate) == ("big", SAMPLE_RATE)
    assert speaking.attributes == {v.TTS_DIFFUSION_STEPS: 4, v.TTS_GUIDANCE: 1.5, v.TTS_SEED: 7}
    setup, *rest = speaking.synthesise(TEXT, never)
    assert isinstance(setup, Setup)
    assert list(setup.parts_ns) == ["tokenise", "prompt", "prefill"] and setup.parts_ns["prompt"] == 0
    assert setup.units == len(model.text_tokenizer(TEXT)) and setup.audio_s is None
    assert len(setup.word_ends) == len(TEXT.split()) and setup.word_ends[-1] == 1.0
    assert list(setup.word_ends) == sorted(setup.word_ends) and setup.word_ends[0] == pytest.approx(5 / 23)
    assert len(rest) == EARLIEST_END
    for patch in rest:
        assert isinstance(patch, Patch) and list(patch.parts_ns) == PARTS
        assert patch.samples.dtype == np.float32 and patch.samples.shape == (PATCH_SAMPLES,)
    samples = sound(iter(rest))
    assert np.sqrt(np.mean(samples**2)) > 0.01 and np.abs(samples).max() <= 1.0


def test_every_part_is_timed_and_the_consumer_is_not(endless: VoxCPM2Model) -> None:
    """The clock moves on by 1 ms for each reading, and by 10 s while the consumer holds an item."""
    clock = TickingClock()
    ends: list[int] = []
    items: list[Setup | Patch] = []
    for item in VoxCpmEngine(endless, clock=clock, max_patches=4).synthesise(TEXT, never):
        ends.append(clock.ns)
        items.append(item)
        clock.ns += 10_000 * MS
    setup, first, *later = items
    assert isinstance(setup, Setup) and setup.start_ns == MS and setup.end_ns == first.start_ns
    assert sum(setup.parts_ns.values()) == setup.end_ns - setup.start_ns
    assert list(first.parts_ns.values()) == [0, 0, 0, MS, MS, MS] and first.end_ns - first.start_ns == 3 * MS
    for patch, before in zip(later, ends[1:], strict=False):
        assert patch.start_ns == before + 10_001 * MS and patch.end_ns - patch.start_ns == 6 * MS
        assert list(patch.parts_ns.values()) == [MS] * 6


def test_a_real_clock_gives_every_part_its_time(endless: VoxCPM2Model) -> None:
    setup, *those = VoxCpmEngine(endless, clock=SystemClock(), max_patches=3).synthesise(TEXT, never)
    assert setup.parts_ns["prefill"] > 0 and setup.parts_ns["tokenise"] > 0
    for patch in those:
        assert isinstance(patch, Patch) and sum(patch.parts_ns.values()) == patch.end_ns - patch.start_ns
    assert all(ns > 0 for patch in those[1:] for ns in patch.parts_ns.values())
    assert all(one.end_ns <= next_.start_ns for one, next_ in pairwise(those))


@pytest.mark.parametrize(("steps", "forwards"), [(2, 1), (4, 3), (6, 5), (10, 9), (49, 47)])
def test_diffusion_forwards_are_counted(endless: VoxCPM2Model, steps: int, forwards: int) -> None:
    calls: list[int] = []
    hook = endless.feat_decoder.estimator.register_forward_hook(lambda *_: calls.append(1))
    counted = [patch.forwards for patch in patches(engine(endless, diffusion_steps=steps, max_patches=2))]
    hook.remove()
    assert counted == [forwards] * 2 and len(calls) == 2 * forwards


def test_a_phrase_sounds_the_same_whenever_it_is_said(model: VoxCPM2Model) -> None:
    one = engine(model, seed=1)
    first = said(one)
    assert not np.array_equal(first, said(one, "how are you"))
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert np.array_equal(first, said(one)), "not by what the process's generator does"
    assert torch.equal(torch.get_rng_state(), state), "which is not disturbed"
    pieces: list[Samples] = []
    for item in one.synthesise(TEXT, never):
        torch.rand(5)  # others draw in between
        if isinstance(item, Patch):
            pieces.append(item.samples)
    assert np.array_equal(first, np.concatenate(pieces))
    assert not np.array_equal(first, said(engine(model, seed=2)))
    assert not np.array_equal(first, said(engine(model, seed=1, guidance=1.0)))


def test_a_phrase_is_as_long_as_the_library_lets_it_be(model: VoxCPM2Model, endless: VoxCPM2Model) -> None:
    tokens = len(endless.text_tokenizer("no"))
    assert len(patches(engine(endless, diffusion_steps=2), "no")) == 6 * tokens + 10
    assert len(patches(engine(endless, max_patches=5), "no")) == 5
    assert len(patches(engine(model, max_patches=5))) == EARLIEST_END
    assert len(patches(engine(model, max_patches=1))) == 1


def test_a_description_does_not_lengthen_the_cap(endless: VoxCPM2Model) -> None:
    tokens = len(endless.text_tokenizer("no"))
    speaking = engine(endless, diffusion_steps=2, voice="a calm old man who is not in a hurry")
    assert len(patches(speaking, "no")) == 6 * tokens + 10


def test_steps_after_the_cap_are_not_computed(endless: VoxCPM2Model) -> None:
    calls: list[int] = []
    step = endless.base_lm.forward_step
    vars(endless.base_lm)["forward_step"] = lambda *given: calls.append(1) or step(*given)
    assert len(patches(engine(endless, max_patches=3))) == 3
    del vars(endless.base_lm)["forward_step"]
    assert len(calls) == 2


def test_the_kv_cache_bounds_a_phrase(tmp_path: Path) -> None:
    """A position for every text token, one for the mark behind them, and one for every patch."""
    small = load(write_voxcpm(tmp_path / "small", replace(TINY, kv_positions=24), stop="never"), "cpu")
    tokens = len(small.text_tokenizer("hello you"))
    assert len(patches(engine(small, diffusion_steps=2), "hello you")) == 24 - tokens - 1
    with pytest.raises(TurnscopeError, match=r"take \d+ positions, but small has 24"):
        said(engine(small, name="small"), "hello you, how can I help " * 4)
    assert len(patches(engine(small, diffusion_steps=2, max_patches=2), "hello you")) == 2


@pytest.mark.parametrize("text", ["", "  ", "...", "?!"])
def test_nothing_to_say_gives_no_patch(model: VoxCPM2Model, text: str) -> None:
    (setup,) = engine(model).synthesise(text, never)
    assert isinstance(setup, Setup) and setup.units == 0 and len(setup.word_ends) == len(text.split())
    assert list(setup.parts_ns) == ["tokenise", "prompt", "prefill"]


def test_line_breaks_are_spaces(model: VoxCPM2Model) -> None:
    assert np.array_equal(said(engine(model), "hello\n there,\tthis is a test. "), said(engine(model)))


def test_half_precision(tmp_path: Path) -> None:
    half = load(write_voxcpm(tmp_path / "half", replace(TINY, dtype="bfloat16")), "cpu")
    assert half.base_lm.norm.weight.dtype == torch.bfloat16
    samples = said(engine(half))
    assert samples.dtype == np.float32 and samples.shape == (EARLIEST_END * PATCH_SAMPLES,)
    assert np.sqrt(np.mean(samples**2)) > 0.01


def test_other_diffusion_steps_are_another_engine_on_the_same_model(endless: VoxCPM2Model) -> None:
    first = engine(endless, max_patches=4)
    other = first.with_diffusion_steps(6)
    assert isinstance(first, DiffusionTts) and isinstance(other, DiffusionTts)
    assert (first.attributes[v.TTS_DIFFUSION_STEPS], other.attributes[v.TTS_DIFFUSION_STEPS]) == (4, 6)
    expected = said(engine(endless, max_patches=4, diffusion_steps=6))
    assert np.array_equal(said(other), expected) and not np.array_equal(said(first), expected)
    with pytest.raises(TurnscopeError, match="One diffusion step gives noise"):
        first.with_diffusion_steps(1)
