"""The Piper engine on the real voice: streaming equals the whole, repeats, stops and times itself."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.models import locate
from agent.tts.piper import PiperEngine, plan_patches
from agent.tts.protocol import Patch, Setup
from tests.fakes.ticking import TickingClock, never, stop_at

SENTENCE = "Sure, I can help you with that today, but first I need to know which city you are calling from."
SAMPLES_PER_FRAME = 256


def sound(items: Iterator[Setup | Patch]) -> NDArray[np.float32]:
    return np.concatenate([item.samples for item in items if isinstance(item, Patch)])


@pytest.fixture(scope="module")
def folder() -> Path:
    return locate("piper-en-us-joe")


@pytest.fixture(scope="module")
def engine(folder: Path) -> PiperEngine:
    return PiperEngine(folder)


@pytest.fixture(scope="module")
def whole(folder: Path) -> NDArray[np.float32]:
    """The sentence, decoded in one piece."""
    return sound(PiperEngine(folder, first_patch_frames=1_000_000).synthesise(SENTENCE, never))


@pytest.mark.parametrize(("first", "later"), [(16, 48), (8, 20), (3, 100)])
def test_patches_join_to_the_unsplit_sound(folder: Path, whole: NDArray[np.float32], first: int, later: int) -> None:
    engine = PiperEngine(folder, first_patch_frames=first, patch_frames=later)
    streamed = sound(engine.synthesise(SENTENCE, never))
    assert streamed.shape == whole.shape
    assert np.abs(streamed - whole).max() <= 1e-5


def test_without_overlap_they_would_not(folder: Path, whole: NDArray[np.float32]) -> None:
    streamed = sound(PiperEngine(folder, overlap_frames=0).synthesise(SENTENCE, never))
    assert np.abs(streamed - whole).max() > 1e-3


def test_items_have_the_form_of_the_protocol(engine: PiperEngine) -> None:
    setup, *patches = engine.synthesise(SENTENCE, never)
    assert isinstance(setup, Setup)
    assert list(setup.parts_ns) == ["phonemize", "encode"]
    assert sum(setup.parts_ns.values()) <= setup.end_ns - setup.start_ns
    assert setup.units > len(SENTENCE) / 2
    sizes = [len(patch.samples) for patch in patches if isinstance(patch, Patch)]
    assert len(sizes) == len(patches)
    assert sizes[0] == 16 * SAMPLES_PER_FRAME
    assert min(sizes[1:]) >= sizes[0]
    samples = sound(iter(patches))
    assert samples.dtype == np.float32
    assert 0.1 < np.abs(samples).max() <= 1.0
    assert 3.0 < len(samples) / engine.sample_rate < 8.0
    assert (engine.model, engine.sample_rate) == (locate("piper-en-us-joe").name, 22050)


def test_leading_silence_is_kept(engine: PiperEngine) -> None:
    first = sound(engine.synthesise("The capital of France is Paris.", never))[:4096]
    frames = first[: len(first) // 220 * 220].reshape(-1, 220)
    level_db = 10 * np.log10(np.mean(frames**2, axis=1))
    assert level_db[0] < -50
    assert level_db.max() > -35


@pytest.mark.parametrize("frames", [1, 5, 16, 23, 24, 25, 40, 88, 100, 113, 401, 2000])
def test_no_patch_is_tiny(frames: int) -> None:
    plan = plan_patches(frames, 16, 48)
    assert [plan[0][0], plan[-1][1]] == [0, frames]
    assert all(before[1] == after[0] for before, after in pairwise(plan))
    assert all(last - first >= min(frames, 8) for first, last in plan)
    assert all(last - first <= 72 for first, last in plan)


def test_a_phrase_repeats_exactly(engine: PiperEngine) -> None:
    once = sound(engine.synthesise(SENTENCE, never))
    list(engine.synthesise("Something else in between.", never))
    assert np.array_equal(once, sound(engine.synthesise(SENTENCE, never)))


def test_should_stop_ends_the_phrase(engine: PiperEngine) -> None:
    assert list(engine.synthesise(SENTENCE, lambda: True)) == []
    assert [type(item) for item in engine.synthesise(SENTENCE, stop_at(2))] == [Setup]
    assert [type(item) for item in engine.synthesise(SENTENCE, stop_at(4))] == [Setup, Patch, Patch]


def test_after_a_cancelled_phrase_the_next_is_as_if_nothing_had_been(engine: PiperEngine, folder: Path) -> None:
    list(engine.synthesise("This will be cut off very soon now.", stop_at(3)))
    dropped = engine.synthesise("And this one is dropped half-way through.", never)
    next(dropped)
    next(dropped)
    del dropped
    assert np.array_equal(
        sound(engine.synthesise(SENTENCE, never)), sound(PiperEngine(folder).synthesise(SENTENCE, never))
    )


def test_the_consumers_time_is_not_the_engines(folder: Path) -> None:
    clock = TickingClock()
    held_ns = 10_000_000_000
    previous_end_ns = 0
    for item in PiperEngine(folder, clock=clock).synthesise(SENTENCE, never):
        assert item.start_ns >= previous_end_ns
        assert 0 < item.end_ns - item.start_ns < 10_000_000
        clock.ns += held_ns
        previous_end_ns = item.end_ns + held_ns


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "Yes.",
        "In the middle of the night, we saw of the lake: nothing!",
        "Well - yes, Doctor Smith's well-known NASA e-mail...",
        "你好 world",
    ],
)
def test_every_word_has_an_end(engine: PiperEngine, text: str) -> None:
    setup = next(engine.synthesise(text, never))
    assert isinstance(setup, Setup)
    assert len(setup.word_ends) == len(text.split())
    assert list(setup.word_ends) == sorted(setup.word_ends)
    assert setup.word_ends[0] > 0
    assert setup.word_ends[-1] == 1.0


def test_words_end_where_they_are_spoken(engine: PiperEngine) -> None:
    """The pause at a comma lies between the words around it."""
    items = engine.synthesise("Wait, no", never)
    setup = next(items)
    assert isinstance(setup, Setup)
    samples = sound(items)
    end = int(setup.word_ends[0] * len(samples))
    before, after = samples[end - 2000 : end], samples[end + 500 : end + 1500]
    assert np.abs(after).max() < 0.5 * np.abs(before).max()


@pytest.mark.parametrize("text", ["", "...", " — !", "👍", "\0\n"])
def test_nothing_to_say(engine: PiperEngine, text: str) -> None:
    (setup,) = engine.synthesise(text, never)
    assert isinstance(setup, Setup)
    assert setup.units == 0
    assert setup.word_ends == (1.0,) * len(text.split())


def test_strange_characters_are_passed_over(engine: PiperEngine) -> None:
    strange = sound(engine.synthesise("Hello\0 there\u200b\x07 you", never))
    assert len(strange) > 0


def test_warm_up(engine: PiperEngine) -> None:
    engine.warm_up()


# files of the wrong kind


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    for name in ("encoder.onnx", "decoder.onnx", "voice.json"):
        (tmp_path / name).symlink_to(folder / name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("voice.json", b"not json", "does not describe a Piper voice"),
        ("voice.json", b"[1, 2]", "does not describe a Piper voice"),
        ("voice.json", b'{"audio": {"sample_rate": 22050}}', "does not describe a Piper voice"),
        ("voice.json", b"\xff\xfe", "does not describe a Piper voice"),
        ("encoder.onnx", b"not a model", "no ONNX model"),
        ("decoder.onnx", b"", "no ONNX model"),
    ],
)
def test_damaged_files_are_refused(copy: Path, name: str, content: bytes, message: str) -> None:
    (copy / name).unlink()
    (copy / name).write_bytes(content)
    with pytest.raises(TurnscopeError, match=message):
        PiperEngine(copy)


@pytest.mark.parametrize("name", ["voice.json", "encoder.onnx", "decoder.onnx"])
def test_missing_files_are_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(TurnscopeError, match=name):
        PiperEngine(copy)


@pytest.mark.parametrize(("name", "other"), [("encoder.onnx", "decoder.onnx"), ("decoder.onnx", "encoder.onnx")])
def test_another_graph_is_refused(copy: Path, folder: Path, name: str, other: str) -> None:
    (copy / name).unlink()
    shutil.copy(folder / other, copy / name)
    with pytest.raises(TurnscopeError, match=f"not the {name.removesuffix('.onnx')} of a Piper voice"):
        PiperEngine(copy)


@pytest.mark.parametrize("change", [{"num_speakers": 4}, {"phoneme_type": "pinyin"}, {"phoneme_id_map": {"a": [1]}}])
def test_another_kind_of_voice_is_refused(copy: Path, folder: Path, change: dict[str, Any]) -> None:
    config = json.loads((folder / "voice.json").read_text(encoding="utf-8")) | change
    (copy / "voice.json").unlink()
    (copy / "voice.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(TurnscopeError, match="no single-speaker Piper voice"):
        PiperEngine(copy)
