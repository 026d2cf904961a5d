"""Which way Nemotron's engine is set up: language, chunk, model without prompts, threads, and the buffered mode."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_choices import CHUNKS_MS
from agent.asr.protocol import AsrEngine
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from tests.asr.nemotron_tools import NOTHING, Samples, stream, tiny_engine, tiny_file, tiny_library, watching
from tests.fakes.ticking import never
from tests.tiny_models.nemotron import babble, write_nemotron


@pytest.fixture(scope="module")
def sound() -> Samples:
    return babble(3.3)


def test_the_engine_describes_itself() -> None:
    engine: AsrEngine = NemotronEngine(tiny_file(), clock=SystemClock(), name="nemotron", chunk_ms=560, mode="buffered")
    assert (engine.model, engine.needs_whole_chunks) == ("nemotron", True)
    assert engine.attributes == {
        v.ASR_CHUNK_S: 0.56,
        v.ASR_RIGHT_CONTEXT: 6,
        v.ASR_MODE: "buffered",
        v.ASR_LANGUAGE: "en-US",
    }


def test_the_language_prompt_is_applied(sound: Samples) -> None:
    texts = {
        language: stream(tiny_engine(language=language), sound)[-1].text for language in ("en-US", "fr-FR", "auto")
    }
    assert len(set(texts.values())) == 3
    tiny_library().set_inference_prompt("fr-FR")
    engine = tiny_engine(language="fr")
    assert engine.attributes[v.ASR_LANGUAGE] == "fr-FR"
    assert stream(engine, sound)[-1].text == texts["fr-FR"]


def test_a_file_without_prompts_is_an_english_model(tmp_path: Path, sound: Samples) -> None:
    path = write_nemotron(tmp_path / "english.nemo", prompted=False)
    engine = NemotronEngine(path, clock=SystemClock(), language="en-GB")
    assert (engine.model, engine.attributes[v.ASR_LANGUAGE]) == ("english", "en")
    assert stream(engine, sound)[-1].text


def test_engines_of_other_chunks_and_languages_share_a_model(sound: Samples) -> None:
    settings = [(320, "en-US"), (80, "de-DE"), (1120, "auto")]
    engines = [tiny_engine(chunk_ms, language=language) for chunk_ms, language in settings]
    alone = [stream(engine, sound, 16_000)[-1].text for engine in engines]
    opened = [engine.open() for engine in engines]
    for start in range(0, len(sound), 16_000):
        for one in opened:
            one.step(sound[start : start + 16_000], never)
    assert [one.finalize(NOTHING, never).text for one in opened] == alone


def test_threads_are_the_engines_own(sound: Samples) -> None:
    """Of whichever thread a step runs on, and whatever another engine has set there meanwhile."""
    before, seen = torch.get_num_threads(), []
    hook = tiny_library().encoder.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    engines = [
        NemotronEngine(tiny_library(), clock=SystemClock(), threads=threads, chunk_ms=560) for threads in (2, 1, None)
    ]
    assert torch.get_num_threads() == before
    with ThreadPoolExecutor(1) as worker:
        opened = [engine.open() for engine in engines]
        for start in (0, 8_000):
            for one in opened:
                worker.submit(one.step, sound[start : start + 8_000], never).result()
        worker.submit(torch.set_num_threads, 2).result()
        worker.submit(opened[1].finalize, sound[16_000:16_001], never).result()
        worker.submit(torch.set_num_threads, before).result()
    hook.remove()
    assert seen == [2, 1, 1] * (len(seen) // 3) + [1] and len(seen) == 4
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_buffered_mode_hears_the_same_while_its_window_holds_all(chunk_ms: int) -> None:
    """For 56 frames of context and the chunk; at 80 ms too, where the windows begin at every frame."""
    sound = babble(56 * 0.08)
    cached, buffered = tiny_engine(chunk_ms), tiny_engine(chunk_ms, mode="buffered")
    assert buffered.chunk_end(12_345) == cached.chunk_end(12_345)
    expected, steps = stream(cached, sound), stream(buffered, sound)
    assert [step.text for step in steps] == [step.text for step in expected]
    assert steps[-1].text
    assert [len(step.passes_ns) for step in steps] == [len(step.passes_ns) for step in expected]


def test_buffered_mode_encodes_its_window_at_every_chunk() -> None:
    sound = babble(12.0)
    engine = tiny_engine(mode="buffered")
    with watching(tiny_library()) as seen:
        step = engine.open().step(sound, never)
    frames = [one.shape[-1] for one in seen.encoded]
    assert frames[:3] == [4, 8, 12] and set(frames[14:]) == {60} and len(frames) == 37
    assert set(seen.features[14:]) == {8 * 59 + 1}
    assert step.encoded_s == pytest.approx(sum(frames) * 0.08)
    assert step.encoded_s > 10 * tiny_engine().open().step(sound, never).encoded_s
    assert step.tokens == len(seen.tokens) and step.text
