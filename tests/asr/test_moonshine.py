"""Moonshine on the bundled recordings: what it hears, that streaming changes nothing, what a long monologue costs."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray

from agent import models
from agent.asr.moonshine import MoonshineEngine, MoonshineStream, tidy
from agent.asr.protocol import Transcript
from agent.errors import TurnscopeError
from agent.scenario import load_scenario
from agent.tts.speakable import speakable
from profiling.trace import vocabulary as v

RATE_HZ = 16_000
CHUNK = 5_120  # 320 ms
LIMIT_S = 5.0
HUMAN = ("go-forward", "do-something", "playing-cards", "sense-and-sensibility")
Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def engine() -> MoonshineEngine:
    return MoonshineEngine(models.locate("moonshine-base-en"), segment_limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def clips() -> list[tuple[Samples, str]]:
    """Human speech at 16 kHz, and what is said."""
    return [
        (utterance.recording.samples, utterance.transcript or "")
        for name in HUMAN
        for utterance in load_scenario(name).utterances
    ]


def never() -> bool:
    return False


def words(text: str) -> str:
    letters = speakable(text.lower().replace("mr.", "mister").replace("-", " ")).lower()
    return " ".join("".join(letter if letter.isalpha() else " " for letter in letters).split())


def packets(samples: Samples, size: int) -> Iterator[Samples]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


def stream(engine: MoonshineEngine, samples: Samples, size: int = CHUNK) -> list[Transcript]:
    """A step per packet, and a finalize without samples."""
    opened = engine.open()
    steps = [opened.step(packet, never) for packet in packets(samples, size)]
    return [*steps, opened.finalize(np.zeros(0, np.float32), never)]


def offline(engine: MoonshineEngine, samples: Samples) -> str:
    return engine.open().finalize(samples, never).text


def test_human_speech_is_recognised_while_it_is_spoken(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]]
) -> None:
    said, heard = [], []
    for samples, transcript in clips:
        steps = stream(engine, samples)
        said.append(words(transcript))
        heard.append(words(steps[-1].text))
        halfway = words(steps[len(steps) * 2 // 3].text).split()
        assert halfway and len(halfway) <= len(said[-1].split()) + 1
    assert jiwer.wer(said, heard) <= 0.15, list(zip(said, heard, strict=True))


@pytest.mark.parametrize("size", [CHUNK, 3_333, 16_000])
def test_streaming_ends_in_the_text_that_the_whole_gives(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]], size: int
) -> None:
    short = [samples for samples, _ in clips if len(samples) < LIMIT_S * RATE_HZ]
    assert len(short) >= 6
    for samples in short:
        assert stream(engine, samples, size)[-1].text == offline(engine, samples)


def test_interleaved_streams_hear_what_each_hears_alone(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]]
) -> None:
    several = [samples for samples, _ in clips[:3]]
    alone = [[step.text for step in stream(engine, samples)] for samples in several]
    opened = [engine.open() for _ in several]
    together: list[list[str]] = [[] for _ in several]
    for start in range(0, max(map(len, several)), CHUNK):
        for number, samples in enumerate(several):
            if start < len(samples):
                together[number].append(opened[number].step(samples[start : start + CHUNK], never).text)
    for number, one in enumerate(opened):
        together[number].append(one.finalize(np.zeros(0, np.float32), never).text)
    assert together == alone


def monologue(clips: list[tuple[Samples, str]]) -> tuple[Samples, str]:
    """The read passages over and over, 0.2 s apart, for a minute."""
    passages = clips[-4:]
    sound, text, number = np.zeros(0, np.float32), "", 0
    while len(sound) < 60 * RATE_HZ:
        samples, transcript = passages[number % len(passages)]
        sound = np.concatenate([sound, samples, np.zeros(RATE_HZ // 5, np.float32)])
        text, number = f"{text} {transcript}", number + 1
    return sound, text


def test_a_minute_of_speech_costs_no_more_at_its_end_and_loses_no_words(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]]
) -> None:
    sound, text = monologue(clips)
    steps = stream(engine, sound)
    assert jiwer.wer(words(text), words(steps[-1].text)) <= 0.08
    encoded_s = [step.encoded_s for step in steps]
    per_s = RATE_HZ / CHUNK
    warm = round(5 * per_s)
    first = sum(encoded_s[warm : warm + round(20 * per_s)])
    last = sum(encoded_s[-round(20 * per_s) :])
    assert last <= 1.1 * first
    assert sum(encoded_s) / (len(sound) / RATE_HZ) <= 16
    assert max(encoded_s) <= 3 * (LIMIT_S + 3)
    # What a cut has committed stays: partial transcripts grow, and change at their end only.
    for earlier, later in itertools.pairwise(steps):
        assert later.text.startswith(earlier.text[:-200])


def test_a_stopped_step_leaves_the_stream_as_if_it_had_only_listened(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]]
) -> None:
    samples = next(samples for samples, _ in clips if 2.5 * RATE_HZ < len(samples) < LIMIT_S * RATE_HZ)
    for calls in (0, 1, 2, 3):
        opened = engine.open()
        before = opened.step(samples[: 3 * CHUNK], never)
        left = calls

        def should_stop() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        stopped = opened.step(samples[3 * CHUNK :], should_stop)
        assert stopped.text == before.text
        assert (stopped.encoded_s > 0) == (calls > 0) and (stopped.tokens > 0) == (calls > 1)
        assert opened.finalize(np.zeros(0, np.float32), never).text == offline(engine, samples)


def test_a_monologue_stopped_at_random_still_loses_no_words(
    engine: MoonshineEngine, clips: list[tuple[Samples, str]]
) -> None:
    sound, text = np.concatenate([samples for samples, _ in clips[-4:]]), " ".join(text for _, text in clips[-4:])
    random = np.random.default_rng(0)
    opened = engine.open()
    for packet in packets(sound, 2 * CHUNK):
        opened.step(packet, lambda: bool(random.random() < 0.08))
    assert jiwer.wer(words(text), words(opened.finalize(np.zeros(0, np.float32), never).text)) <= 0.15


def test_silence_noise_and_scraps_are_not_words(engine: MoonshineEngine, clips: list[tuple[Samples, str]]) -> None:
    (room,) = load_scenario("silence").utterances
    faint, noise = np.float32(0.01), np.random.default_rng(0).normal(0, 0.01, 3 * RATE_HZ).astype(np.float32)
    for sound in (
        np.zeros(RATE_HZ, np.float32),
        noise * faint,
        noise,
        room.recording.samples,
        clips[0][0][8_000:9_500],
    ):
        assert offline(engine, sound) == ""
    for sound in (np.zeros(RATE_HZ, np.float32), noise[:1_500], np.zeros(0, np.float32)):
        final = engine.open().finalize(sound, never)
        assert (final.text, final.encoded_s, final.tokens) == ("", 0.0, 0)


def test_nothing_new_is_not_encoded_again(engine: MoonshineEngine, clips: list[tuple[Samples, str]]) -> None:
    *_, last, final = stream(engine, clips[0][0])
    assert last.encoded_s > 0 and last.tokens > 0
    assert (final.text, final.encoded_s, final.tokens) == (last.text, 0.0, 0)


def test_a_step_says_when_it_ran_and_what_it_cost(clips: list[tuple[Samples, str]]) -> None:
    class Ticking:
        now = 0

        def now_ns(self) -> int:
            self.now += 10
            return self.now

        def wall_ns(self) -> int:
            return self.now_ns()

    engine = MoonshineEngine(models.locate("moonshine-base-en"), clock=Ticking())
    engine.warm_up()
    opened = engine.open()
    assert isinstance(opened, MoonshineStream)
    samples = clips[0][0][: 2 * RATE_HZ]
    one, two = (opened.step(packet, never) for packet in packets(samples, RATE_HZ))
    assert one.start_ns < one.end_ns < two.start_ns < two.end_ns
    assert one.encoded_s == pytest.approx(1.4, abs=0.01) and two.encoded_s == pytest.approx(2.4, abs=0.01)
    assert opened.encoded_s == one.encoded_s + two.encoded_s
    assert opened.evaluated_tokens == one.tokens + two.tokens


def test_stray_quotes_and_spaces_go() -> None:
    assert tidy(' " Go  forward" ') == "Go forward"
    assert tidy("\u201cIt's the dogs'") == "It's the dogs'"
    assert tidy('He said "no" twice.') == 'He said "no" twice.'


@pytest.mark.parametrize("chunk_ms", [9, 0, -320])
def test_a_chunk_of_no_length_is_a_sentence(chunk_ms: int) -> None:
    with pytest.raises(TurnscopeError, match=rf"A chunk of {chunk_ms} ms is too short: choose 10 ms or more\."):
        MoonshineEngine(models.locate("moonshine-base-en"), chunk_ms=chunk_ms)


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(models.locate("moonshine-base-en"), folder / "moonshine-base-en"))


@pytest.mark.parametrize("name", ["frontend.onnx", "encoder.onnx", "decoder.onnx", "tokenizer.bin"])
def test_a_missing_or_wrong_file_is_a_sentence(tmp_path: Path, name: str) -> None:
    folder = copied(tmp_path)
    (folder / name).unlink()
    with pytest.raises(TurnscopeError, match=name):
        MoonshineEngine(folder)
    shutil.copy(models.locate("silero-vad") / "silero_vad.onnx", folder / name)
    with pytest.raises(TurnscopeError, match=rf"{name}.* (not|no) Moonshine"):
        MoonshineEngine(folder)
    (folder / name).write_bytes(b"\x03nonsense")
    with pytest.raises(TurnscopeError, match=name):
        MoonshineEngine(folder)


def test_another_chunk_is_another_cadence_on_the_same_model(engine: MoonshineEngine) -> None:
    other = engine.with_chunk(1120)
    assert (engine.chunk_end(1), other.chunk_end(1)) == (5120, 17_920)
    assert (engine.attributes[v.ASR_CHUNK_S], other.attributes[v.ASR_CHUNK_S]) == (0.32, 1.12)
    samples = load_scenario("go-forward").utterances[0].recording.samples
    assert stream(other, samples)[-1].text == stream(engine, samples)[-1].text
    with pytest.raises(TurnscopeError, match="5 ms is too short"):
        engine.with_chunk(5)
