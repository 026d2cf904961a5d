"""Nemotron's engine on a tiny random model: a stream hears exactly what the model makes of the whole sound at once."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_choices import CHUNKS_MS
from agent.errors import TurnscopeError
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from tests.asr.nemotron_tools import (
    NOTHING,
    RATE_HZ,
    Samples,
    offline,
    stream,
    tiny_engine,
    tiny_file,
    tiny_library,
    watching,
)
from tests.fakes.ticking import TickingClock, never, stop_at
from tests.tiny_models.nemotron import babble


@pytest.fixture(scope="module")
def sound() -> Samples:
    """Longer than the encoder's memory, and no whole number of chunks."""
    return babble(7.3)


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_streaming_gives_what_the_whole_sound_gives(sound: Samples, chunk_ms: int) -> None:
    engine = tiny_engine(chunk_ms)
    with watching(tiny_library()) as seen:
        final = stream(engine, sound)[-1]
    flushed = np.pad(sound, (0, engine.chunk_end(len(sound)) - len(sound)))
    frames, tokens, text = offline(tiny_library(), flushed)
    assert seen.frames.shape == frames.shape
    assert (seen.frames - frames).abs().max() <= 1e-5
    assert seen.tokens == tokens and len(set(tokens)) > 5
    assert final.text == text


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_a_chunk_is_heard_with_its_last_sample(sound: Samples, chunk_ms: int) -> None:
    engine = tiny_engine(chunk_ms)
    frames = chunk_ms // 80
    ends = [engine.chunk_end(1)]
    ends.append(engine.chunk_end(ends[0] + 1))
    ends.append(engine.chunk_end(ends[1] + 1))
    assert ends == [1280 * (frames * number - 1) + 200 for number in (1, 2, 3)]
    assert [engine.chunk_end(end) for end in ends] == ends and engine.chunk_end(0) == ends[0]
    opened, taken = engine.open(), 0
    for end in ends:
        assert opened.step(sound[taken : end - 1], never).passes_ns == ()
        last = opened.step(sound[end - 1 : end], never)
        assert len(last.passes_ns) == 1 and last.encoded_s == pytest.approx(frames * 0.08)
        taken = end


@pytest.mark.parametrize("chunk_ms", [80, 320])
def test_packets_of_any_size_give_the_same_to_the_bit(sound: Samples, chunk_ms: int) -> None:
    engine, random = tiny_engine(chunk_ms), np.random.default_rng(1)
    with watching(tiny_library()) as whole:
        expected = engine.open().finalize(sound, never)
    for largest in (100, 40_000):
        opened, rest = engine.open(), sound
        with watching(tiny_library()) as seen:
            while len(rest):
                size = int(random.integers(0, largest))
                opened.step(rest[:size], never)
                rest = rest[size:]
            assert opened.finalize(NOTHING, never).text == expected.text
        assert torch.equal(seen.frames, whole.frames) and seen.tokens == whole.tokens


def state_size(opened: Any) -> int:
    """Numbers that a stream keeps, its text aside."""
    decoder, (hypothesis,) = opened._decoder, opened._decoder._hypotheses
    kept = [*decoder._cache, decoder._recent, hypothesis.y_sequence, hypothesis.timestamp]
    return sum(tensor.numel() for tensor in kept) + len(opened._features._samples)


def test_ten_minutes_cost_no_more_per_chunk_at_their_end() -> None:
    engine = tiny_engine(1120)
    minute = babble(60.0)
    sizes, steps = [], []
    with watching(tiny_library()) as seen:
        opened = engine.open()
        for _ in range(10):
            steps.append(opened.step(minute, never))
            sizes.append(state_size(opened))
    passes = len(seen.encoded)
    assert passes == sum(len(step.passes_ns) for step in steps) == int(600 / 1.12)
    assert seen.features[0] == 105 and set(seen.features[1:]) == {9 + 112}
    assert {frames.shape[-1] for frames in seen.encoded} == {14}
    assert max(sizes) - min(sizes) < 1.12 * RATE_HZ  # what there is of the next chunk
    made = [len(tokens) for tokens in seen.decoded]
    assert seen.looked_up == [count for one in made for count in (one, one)]  # once by the library, once by the stream
    assert sum(step.tokens for step in steps) == sum(made) > 500
    assert max(made) <= 2 * 14  # the tiny model gives two tokens a frame at most
    assert all(step.encoded_s == pytest.approx(len(step.passes_ns) * 1.12) for step in steps)


def test_interleaved_streams_hear_what_each_hears_alone() -> None:
    engine = tiny_engine()
    several = [babble(seconds, seed) for seed, seconds in enumerate((2.0, 3.1, 2.6))]
    alone = [[step.text for step in stream(engine, samples, 4_000)] for samples in several]
    assert len({steps[-1] for steps in alone}) == 3
    opened = [engine.open() for _ in several]
    together: list[list[str]] = [[] for _ in several]
    for start in range(0, max(map(len, several)), 4_000):
        for number, samples in enumerate(several):
            if start < len(samples):
                together[number].append(opened[number].step(samples[start : start + 4_000], never).text)
    for number, one in enumerate(opened):
        together[number].append(one.finalize(NOTHING, never).text)
    assert together == alone


def test_finalize_flushes_what_is_incomplete_with_silence(sound: Samples) -> None:
    engine = tiny_engine(560)
    end = engine.chunk_end(2 * RATE_HZ)
    opened = engine.open()
    heard = opened.step(sound[:end], never)
    nothing = opened.finalize(NOTHING, never)
    assert (nothing.text, nothing.encoded_s, nothing.passes_ns) == (heard.text, 0, ())

    opened = engine.open()
    opened.step(sound[:end], never)
    flushed = opened.finalize(sound[end : end + 1], never)
    assert len(flushed.passes_ns) == 1 and flushed.encoded_s == pytest.approx(0.56)

    empty = engine.open().finalize(NOTHING, never)
    assert (empty.text, empty.passes_ns) == ("", ())
    assert len(engine.open().finalize(sound[:1], never).passes_ns) == 1


def test_a_stopped_step_goes_on_exactly(sound: Samples) -> None:
    engine = tiny_engine()
    expected = stream(engine, sound)[-1].text
    opened = engine.open()
    first = opened.step(sound[:40_000], stop_at(1))
    assert (first.text, first.passes_ns, first.encoded_s) == ("", (), 0)
    second = opened.step(sound[40_000:50_000], stop_at(4))
    assert len(second.passes_ns) == 3
    third = opened.finalize(sound[50_000:], stop_at(2))
    assert len(third.passes_ns) == 1
    assert opened.finalize(NOTHING, never).text == expected


def test_warm_up_leaves_nothing_behind(sound: Samples) -> None:
    sound = sound[:40_000]
    expected = [step.text for step in stream(tiny_engine(80), sound)]
    warm = NemotronEngine(tiny_file(), clock=SystemClock(), chunk_ms=80)
    opened = warm.open()
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    with watching(warm._model.library) as seen:
        warm.warm_up()
    assert seen.features == [1, 1 + 8, 9 + 8, 9 + 8]
    assert torch.equal(torch.get_rng_state(), torch_state) and np.random.get_state()[1].tolist() == numpy_state
    texts = [opened.step(sound[start : start + 320], never).text for start in range(0, len(sound), 320)]
    assert [*texts, opened.finalize(NOTHING, never).text] == expected


def test_every_pass_and_its_parts_are_timed(sound: Samples) -> None:
    engine = NemotronEngine(tiny_library(), clock=TickingClock(), chunk_ms=320)
    step = engine.open().step(sound, never)
    ms = 1_000_000  # the clock moves on by one whenever it is read: four times in a pass
    assert (step.start_ns, len(step.passes_ns)) == (ms, (len(sound) - 4040) // 5120 + 1)
    assert step.passes_ns[:2] == ((2 * ms, 5 * ms), (6 * ms, 9 * ms))
    assert step.end_ns == step.passes_ns[-1][1] + ms
    each = (ms,) * len(step.passes_ns)
    assert step.parts_ns == {"features": each, "encoder": each, "decoder": each}
    assert engine.open().step(NOTHING, never).parts_ns == {"features": (), "encoder": (), "decoder": ()}


@pytest.mark.parametrize("mode", ["cache-aware", "buffered"])
def test_opening_a_stream_computes_nothing(sound: Samples, mode: str) -> None:
    """It happens where the conversation runs; what a stream needs is made by its first step."""

    class Computed(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    engine, calls, threads = tiny_engine(mode=mode), [], torch.get_num_threads()
    engine._threads = threads + 1
    with Computed():
        opened = engine.open()
        assert calls == [] and torch.get_num_threads() == threads
        engine._threads = opened._threads = None
        opened.step(sound[:5_000], never)
        assert calls


@pytest.mark.parametrize("where", ["preprocessor", "encoder", "joint.joint_net"])
def test_a_stream_that_has_failed_says_so_again(sound: Samples, where: str) -> None:
    """What it has not heard would be a hole in its transcript; other streams are not touched."""
    engine = tiny_engine()
    expected = stream(engine, sound)[-1].text
    opened, other = engine.open(), engine.open()
    opened.step(sound[:20_000], never)

    def fail(*_: Any) -> None:
        raise RuntimeError("out of order")

    hook = tiny_library().get_submodule(where).register_forward_pre_hook(fail)
    try:
        with pytest.raises(RuntimeError, match="out of order"):
            opened.step(sound[20_000:40_000], never)
    finally:
        hook.remove()
    for again in (opened.step, opened.finalize, opened.finalize):
        with pytest.raises(RuntimeError, match="out of order"):
            again(sound[40_000:], never)
    assert other.finalize(sound, never).text == expected


def test_another_chunk_shares_the_model_and_both_hear_what_they_hear_alone(sound: Samples) -> None:
    engine = tiny_engine(320)
    other = engine.with_chunk(1120)
    assert other.attributes[v.ASR_CHUNK_S] == 1.12 and other.attributes[v.ASR_RIGHT_CONTEXT] == 13
    assert engine.attributes[v.ASR_CHUNK_S] == 0.32 and engine.chunks_ms == other.chunks_ms == CHUNKS_MS
    alone = [stream(tiny_engine(chunk_ms), sound)[-1].text for chunk_ms in (320, 1120)]
    streams = [engine.open(), other.open()]
    for start in range(0, len(sound), 3200):
        for opened in streams:
            opened.step(sound[start : start + 3200], never)
    assert [opened.finalize(NOTHING, never).text for opened in streams] == alone
    with pytest.raises(TurnscopeError, match="There is no chunk of 100 ms"):
        engine.with_chunk(100)
