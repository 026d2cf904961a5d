"""The voice of VoxCPM2: descriptions and recordings reach the model, are encoded once, and bad ones are refused."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.tts.protocol import Patch, Setup
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import VoxCPM2Model, load
from agent.tts.voxcpm_voice import Voice
from tests.fakes.ticking import TickingClock, never
from tests.tiny_models.voxcpm import EARLIEST_END, PATCH_SAMPLES, TINY, write_voxcpm

TEXT, PROMPT_TEXT = "how are you", "hello there."
Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voxcpm(tmp_path_factory.mktemp("voxcpm") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[VoxCPM2Model]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load(folder, "cpu")
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wav(tmp_path_factory.mktemp("wav") / "tone.wav", 220)


@pytest.fixture(scope="module")
def hum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wav(tmp_path_factory.mktemp("wav") / "hum.wav", 70)


@pytest.fixture
def encodings(model: VoxCPM2Model) -> Iterator[list[int]]:
    """One entry for each recording that goes through the VAE's encoder."""
    calls: list[int] = []
    encode = model.audio_vae.encode
    vars(model.audio_vae)["encode"] = lambda *given: calls.append(1) or encode(*given)
    yield calls
    del vars(model.audio_vae)["encode"]


def write_wav(path: Path, hz: float, level: float = 0.1, seconds: float = 1.0) -> Path:
    times = np.arange(round(22_050 * seconds)) / 22_050
    soundfile.write(path, level * np.sin(2 * np.pi * hz * times), 22_050)
    return path


def engine(model: VoxCPM2Model, **settings: Any) -> VoxCpmEngine:
    return VoxCpmEngine(model, clock=TickingClock(), diffusion_steps=4, **settings)


def said(engine: VoxCpmEngine, text: str = TEXT) -> Samples:
    return np.concatenate([item.samples for item in engine.synthesise(text, never) if isinstance(item, Patch)])


def library(model: VoxCPM2Model, text: str, cache: dict[str, Any] | None) -> Samples:
    """The library's own streamed sound."""
    torch.manual_seed(0)
    items = model.generate_with_prompt_cache_streaming(target_text=text, prompt_cache=cache, inference_timesteps=4)
    return np.concatenate([samples.squeeze(0).numpy() for samples, _, _ in items])


def first_setup(engine: VoxCpmEngine) -> Setup:
    (setup, *_) = engine.synthesise(TEXT, never)
    assert isinstance(setup, Setup)
    return setup


def test_a_description_stands_in_parentheses_before_the_text(model: VoxCPM2Model) -> None:
    described = said(engine(model, voice=" an old man,\n calm"))
    assert np.array_equal(described, library(model, f"(an old man, calm){TEXT}", None))
    assert not np.array_equal(described, said(engine(model)))
    assert first_setup(engine(model, voice="calm")).units == first_setup(engine(model)).units


def test_a_reference_is_encoded_once_and_serves_every_phrase(
    model: VoxCPM2Model, tone: Path, encodings: list[int]
) -> None:
    speaking = engine(model, reference_wav=tone)
    assert encodings == []
    setups = [first_setup(speaking) for _ in range(2)]
    assert encodings == [1] and [setup.parts_ns["prompt"] > 0 for setup in setups] == [True, False]
    assert all(sum(setup.parts_ns.values()) == setup.end_ns - setup.start_ns for setup in setups)
    first, second = said(speaking), said(speaking, "no")
    assert encodings == [1]
    cache = model.build_prompt_cache(reference_wav_path=str(tone))
    assert np.array_equal(first, library(model, TEXT, cache)) and np.array_equal(second, library(model, "no", cache))
    assert not np.array_equal(first, said(engine(model)))


def test_warm_up_encodes_the_voice(model: VoxCPM2Model, tone: Path, encodings: list[int]) -> None:
    speaking = engine(model, reference_wav=tone)
    speaking.warm_up()
    assert encodings == [1] and first_setup(speaking).parts_ns["prompt"] == 0 and encodings == [1]


def test_every_kind_of_voice_is_the_librarys(model: VoxCPM2Model, tone: Path, hum: Path, encodings: list[int]) -> None:
    prompt = {"prompt_wav": tone, "prompt_text": f" {PROMPT_TEXT}\n"}
    sounds = [
        said(engine(model, **prompt)),
        said(engine(model, **prompt, reference_wav=hum)),
        said(engine(model, voice="calm", reference_wav=tone)),
    ]
    assert len(encodings) == 4
    continued = {"prompt_wav_path": str(tone), "prompt_text": PROMPT_TEXT}
    caches = [
        model.build_prompt_cache(**continued),
        model.build_prompt_cache(**continued, reference_wav_path=str(hum)),
        model.build_prompt_cache(reference_wav_path=str(tone)),
    ]
    for samples, text, cache in zip(sounds, (TEXT, TEXT, f"(calm){TEXT}"), caches, strict=True):
        assert np.array_equal(samples, library(model, text, cache))
        assert samples.shape == (EARLIEST_END * PATCH_SAMPLES,)


def test_a_recording_too_long_for_the_model_is_refused_before_it_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load(write_voxcpm(tmp_path / "small", replace(TINY, kv_positions=24)), "cpu")
    long = write_wav(tmp_path / "long.wav", 100, seconds=24 * 0.16)
    monkeypatch.setattr(small, "build_prompt_cache", pytest.fail)
    for given in ({"reference_wav": long}, {"prompt_wav": long, "prompt_text": "hello"}):
        with pytest.raises(TurnscopeError, match=r"take \d+ positions, but voxcpm2 has 24: give a shorter phrase or"):
            engine(small, **given).warm_up()


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_the_positions_of_a_recording_are_known_before(model: VoxCPM2Model, tmp_path: Path, rate_hz: int) -> None:
    for samples in (rate_hz // 2, round(0.8 * rate_hz), round(0.8 * rate_hz) + 1, 12_345):
        path = tmp_path / f"{samples}.wav"
        soundfile.write(path, 0.1 * np.sin(np.arange(samples) / 9), rate_hz)
        cache = model.build_prompt_cache(reference_wav_path=str(path))
        encoded = len(cache["ref_audio_feat"])
        assert Voice(reference_wav=path).positions(model) == encoded + 2
        assert Voice(prompt_wav=path, prompt_text="hello").positions(model) == encoded
    assert Voice("calm").positions(model) == 0


def no_wav(folder: Path) -> Path:
    path = folder / "text.wav"
    path.write_text("no sound at all")
    return path


def silent(folder: Path) -> Path:
    return write_wav(folder / "silent.wav", 100, level=0.0)


def absent(folder: Path) -> Path:
    return folder / "absent.wav"


@pytest.mark.parametrize("name", ["reference_wav", "prompt_wav"])
@pytest.mark.parametrize(
    ("make", "sentence"),
    [(no_wav, "is not a WAV file"), (silent, "is silent"), (absent, "cannot be read: No such file")],
)
def test_unusable_recordings_are_refused(
    model: VoxCPM2Model, tmp_path: Path, name: str, make: Callable[[Path], Path], sentence: str
) -> None:
    text = {"prompt_text": "hello"} if name == "prompt_wav" else {}
    with pytest.raises(TurnscopeError, match=sentence):
        engine(model, **{name: make(tmp_path)}, **text)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"diffusion_steps": 1}, "One diffusion step gives noise, .*: choose 2 to 100"),
        ({"diffusion_steps": 0}, "0 diffusion steps are not possible: choose 2 to 100"),
        ({"diffusion_steps": 101}, "101 diffusion steps are not possible"),
        ({"guidance": -0.5}, r"A guidance of -0\.5 is not possible: choose 0 to 10"),
        ({"guidance": float("nan")}, "A guidance of nan is not possible"),
        ({"guidance": 11.0}, r"A guidance of 11\.0 is not possible"),
        ({"seed": -1}, "A seed of -1 is not possible"),
        ({"max_patches": 0}, "at most 0 patches has no sound"),
        ({"threads": 0}, "0 threads cannot compute"),
        ({"voice": " "}, "description of the voice has no words"),
        ({"voice": "a man (old)"}, "has parentheses"),
        ({"prompt_text": "hello"}, "The prompt text needs its recording"),
        ({"prompt_wav": "tone"}, "The prompt recording .* needs its text"),
        ({"prompt_wav": "tone", "prompt_text": " "}, "The prompt recording .* needs its text"),
        ({"prompt_wav": "tone", "prompt_text": "hello", "voice": "calm"}, "cannot be described too"),
    ],
)
def test_settings_that_do_not_serve_are_refused(
    folder: Path, tone: Path, settings: dict[str, Any], sentence: str
) -> None:
    """In one sentence, and before anything is loaded."""
    given = {name: tone if value == "tone" else value for name, value in settings.items()}
    with pytest.raises(TurnscopeError, match=sentence) as refusal:
        VoxCpmEngine(folder / "not there", clock=TickingClock(), **given)
    assert "\n" not in str(refusal.value) and str(refusal.value).endswith(".")


def test_the_normaliser_reads_numbers_and_is_timed(model: VoxCPM2Model, capfd: pytest.CaptureFixture[str]) -> None:
    speaking = engine(model, normalize=True)
    setup, *rest = speaking.synthesise("I can help 3 of you.", never)
    assert isinstance(setup, Setup) and list(setup.parts_ns) == ["normalise", "tokenise", "prompt", "prefill"]
    assert setup.parts_ns["normalise"] > 0 and len(setup.word_ends) == 6
    assert sum(setup.parts_ns.values()) == setup.end_ns - setup.start_ns
    samples = np.concatenate([item.samples for item in rest if isinstance(item, Patch)])
    assert np.array_equal(samples, said(engine(model), "I can help three of you."))
    assert len(said(speaking, "你好 😀")) == EARLIEST_END * PATCH_SAMPLES
    (nothing,) = speaking.synthesise("😀", never)
    assert isinstance(nothing, Setup) and nothing.units == 0
    assert capfd.readouterr() == ("", "")


def test_the_normalisers_packages_are_asked_for(model: VoxCPM2Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.tts.voxcpm.find_spec", lambda name: None)
    with pytest.raises(TurnscopeError, match="needs the package wetext: install it, or leave the normaliser off"):
        engine(model, normalize=True)
