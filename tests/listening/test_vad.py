"""Silero on real speech and on noise, in packets of any size."""

from pathlib import Path

import numpy as np
import pytest

from agent import models
from agent.errors import TurnscopeError
from agent.listening.vad import FRAME_SAMPLES, SileroVad, VadFrame
from agent.scenario import load_scenario


@pytest.fixture
def vad() -> SileroVad:
    return SileroVad(models.locate("silero-vad") / "silero_vad.onnx")


def test_speech_is_heard_where_it_is_and_noise_is_not(vad: SileroVad) -> None:
    (utterance,) = load_scenario("go-forward").utterances
    frames = vad.open().push(utterance.recording.samples)
    voiced = [frame for frame in frames if frame.probability >= 0.5]
    assert utterance.last_voiced_sample is not None
    assert abs(voiced[-1].end_sample - utterance.last_voiced_sample) < 0.25 * 16_000
    assert len(voiced) * FRAME_SAMPLES > 0.8 * 16_000
    (room,) = load_scenario("silence").utterances
    assert max(frame.probability for frame in vad.open().push(room.recording.samples)) < 0.5


def test_frames_do_not_depend_on_the_packets(vad: SileroVad) -> None:
    samples = load_scenario("do-something").utterances[0].recording.samples
    stream = vad.open()
    whole = stream.push(samples)
    assert [(frame.start_sample, frame.end_sample) for frame in whole] == [
        (start, start + FRAME_SAMPLES) for start in range(0, len(samples) - FRAME_SAMPLES + 1, FRAME_SAMPLES)
    ]
    for size in (1_000, 320, 77):
        stream.reset()
        pieces = [frame for at in range(0, len(samples), size) for frame in stream.push(samples[at : at + size])]
        assert pieces == whole


def test_streams_share_the_model_and_nothing_else(vad: SileroVad) -> None:
    said, noise = (load_scenario(name).utterances[0].recording.samples[:16_000] for name in ("go-forward", "silence"))
    alone = [vad.open().push(samples) for samples in (said, noise)]
    one, other = vad.open(), vad.open()
    pieces: list[list[VadFrame]] = [[], []]
    for at in range(0, 16_000, 320):
        pieces[0] += one.push(said[at : at + 320])
        pieces[1] += other.push(noise[at : at + 320])
    assert pieces == alone


def test_the_sample_clock_starts_where_it_is_told(vad: SileroVad) -> None:
    (frame,) = vad.open(start_sample=1_600).push(np.zeros(FRAME_SAMPLES, np.float32))
    assert isinstance(frame, VadFrame) and (frame.start_sample, frame.end_sample) == (1_600, 1_600 + FRAME_SAMPLES)


def test_a_wrong_or_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match=r"absent\.onnx"):
        SileroVad(tmp_path / "absent.onnx")
    with pytest.raises(TurnscopeError, match="not a Silero VAD"):
        SileroVad(models.locate("smart-turn-v3.2") / "smart_turn.onnx")
