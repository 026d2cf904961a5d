"""Whisper's features and the turn model on finished and unfinished speech."""

from pathlib import Path

import numpy as np
import pytest

from agent import models
from agent.errors import TurnscopeError
from agent.listening.log_mel import BANDS, hz_of_mel, log_mel, mel_of_hz
from agent.listening.smart_turn import SmartTurn
from agent.scenario import load_scenario

EIGHT_S = 8 * 16_000


@pytest.mark.parametrize("hz", [150.0, 440.0, 1_000.0, 3_000.0, 7_000.0])
def test_a_tone_is_loudest_in_the_band_that_holds_it(hz: float) -> None:
    times = np.arange(EIGHT_S) / 16_000
    features = log_mel(np.sin(2 * np.pi * hz * times).astype(np.float32), EIGHT_S)
    assert features.shape == (BANDS, 800) and features.dtype == np.float32
    loudest = int(features.mean(axis=1).argmax())
    edges = np.linspace(0, float(mel_of_hz(np.array(8_000.0))), BANDS + 2)
    assert edges[loudest] <= float(mel_of_hz(np.array(hz))) <= edges[loudest + 2]


def test_mel_and_hertz_are_inverse_and_the_scale_bends_at_1_khz() -> None:
    hz = np.array([0.0, 500.0, 1_000.0, 6_400.0])
    assert np.allclose(hz_of_mel(mel_of_hz(hz)), hz)
    assert np.allclose(mel_of_hz(hz), [0.0, 7.5, 15.0, 42.0])


@pytest.mark.parametrize("samples", [100, 5_000, 16_000, EIGHT_S - 1])
def test_short_audio_is_the_end_of_eight_seconds_of_silence(samples: int) -> None:
    heard = np.random.default_rng(samples).normal(0, 0.1, samples).astype(np.float32)
    padded = np.concatenate([np.zeros(EIGHT_S - samples, np.float32), heard])
    assert np.array_equal(log_mel(heard, EIGHT_S), log_mel(padded, EIGHT_S))
    assert np.array_equal(
        log_mel(np.concatenate([np.ones(999, np.float32), padded]), EIGHT_S), log_mel(padded, EIGHT_S)
    )


def test_a_finished_sentence_scores_above_one_that_is_cut() -> None:
    detector = SmartTurn(models.locate("smart-turn-v3.2") / "smart_turn.onnx")
    pause = np.zeros(3_200, np.float32)
    finished, cut = [], []
    for name, number in (("sense-and-sensibility", 0), ("sense-and-sensibility", 2), ("capital-cities", 1)):
        utterance = load_scenario(name).utterances[number]
        samples, end = utterance.recording.samples, utterance.last_voiced_sample or 0
        finished.append(detector.probability(np.concatenate([samples[:end], pause])))
        cut.append(detector.probability(np.concatenate([samples[: int(end * 0.55)], pause])))
    assert all(0 <= p <= 1 for p in finished + cut)
    assert min(finished) > 0.7 and all(one > two for one, two in zip(finished, cut, strict=True))
    assert np.mean(finished) - np.mean(cut) > 0.2


def test_a_wrong_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match="not a smart-turn model"):
        SmartTurn(models.locate("silero-vad") / "silero_vad.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"nonsense")
    with pytest.raises(TurnscopeError, match="damaged"):
        SmartTurn(tmp_path / "broken.onnx")
