import os
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.audio.wav import Recording, first_audible_sample, peak_dbfs, read_wav, require_sound
from agent.errors import TurnscopeError

TONE_HZ = 440


def tone(rate_hz: int, seconds: float = 0.5, amplitude: float = 0.5, hz: float = TONE_HZ):
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)


def write(path: Path, samples, rate_hz: int = 16_000, subtype: str = "PCM_16", **how) -> Path:
    soundfile.write(path, samples, rate_hz, subtype=subtype, **how)
    return path


def assert_is_tone(recording: Recording, amplitude: float, tolerance: float = 0.01):
    samples = recording.samples
    assert samples.dtype == np.float32 and samples.ndim == 1
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    assert np.argmax(spectrum) * 16_000 / len(samples) == pytest.approx(TONE_HZ, abs=3)
    rms = np.sqrt(np.mean(np.square(samples[1000:-1000], dtype=np.float64)))
    assert rms == pytest.approx(amplitude / np.sqrt(2), rel=tolerance)


def sentence(path: Path) -> str:
    with pytest.raises(TurnscopeError) as raised:
        read_wav(path)
    text = str(raised.value)
    assert str(path) in text and text.endswith(".") and "\n" not in text
    return text


@pytest.mark.parametrize("channels", (1, 2, 6))
@pytest.mark.parametrize("rate_hz", (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000))
@pytest.mark.parametrize("subtype", ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"))
def test_every_width_rate_and_channel_count_becomes_the_same_tone(tmp_path, subtype, rate_hz, channels):
    path = write(tmp_path / "a.wav", np.repeat(tone(rate_hz)[:, None], channels, axis=1), rate_hz, subtype)
    recording = read_wav(path)
    assert (recording.source_rate_hz, recording.channels, recording.subtype) == (rate_hz, channels, subtype)
    assert recording.warnings == ()
    assert recording.duration_s == pytest.approx(0.5, abs=1 / 8000)
    assert_is_tone(recording, 0.5)


@pytest.mark.parametrize(
    ("container", "subtype", "how"),
    (
        ("WAVEX", "PCM_16", {}),
        ("WAVEX", "FLOAT", {}),
        ("RF64", "PCM_24", {}),
        ("WAV", "PCM_16", {"endian": "BIG"}),
        ("WAV", "ULAW", {}),
        ("WAV", "ALAW", {}),
        ("WAV", "MS_ADPCM", {}),
    ),
)
def test_other_wav_forms_are_read_too(tmp_path, container, subtype, how):
    recording = read_wav(write(tmp_path / "a.wav", tone(48_000), 48_000, subtype, format=container, **how))
    assert recording.warnings == ()
    assert_is_tone(recording, 0.5, tolerance=0.03)


def test_channels_are_mixed_by_their_mean(tmp_path):
    both = np.stack((tone(16_000, amplitude=0.6), tone(16_000, amplitude=0.2)), axis=1)
    assert_is_tone(read_wav(write(tmp_path / "a.wav", both)), 0.4)


def test_a_recording_longer_than_one_block_is_whole(tmp_path):
    recording = read_wav(write(tmp_path / "a.wav", tone(96_000, 8.0), 96_000))
    assert len(recording.samples) == 8 * 16_000
    assert np.max(np.abs(recording.samples[1000:-1000] - tone(16_000, 8.0)[1000:-1000])) < 2e-3


@pytest.mark.parametrize("subtype", ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT"))
def test_clipping_is_a_warning(tmp_path, subtype):
    path = write(tmp_path / "a.wav", np.clip(tone(16_000, amplitude=1.5), -1, 1), subtype=subtype)
    (warning,) = read_wav(path).warnings
    # 0.5 s of 440 Hz has 220 periods, each flat at its top and its bottom.
    assert warning == f"{path} is clipped in 440 places: record it at a lower level."


def test_one_clipped_channel_is_found_across_a_block_boundary(tmp_path):
    samples = np.zeros((1 << 18, 2))
    samples[(1 << 17) - 1 : (1 << 17) + 2, 1] = 1.0  # blocks of two channels end at 1 << 17
    path = write(tmp_path / "a.wav", samples)
    assert read_wav(path).warnings == (f"{path} is clipped in 1 place: record it at a lower level.",)


def test_single_samples_at_full_scale_are_not_clipping(tmp_path):
    samples = np.zeros(16_000)
    samples[[100, 101, 5000]] = 1.0
    assert read_wav(write(tmp_path / "a.wav", samples)).warnings == ()


def test_float_values_beyond_one_are_clipped_with_a_warning(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000, amplitude=2.5), subtype="FLOAT")
    recording = read_wav(path)
    assert recording.warnings == (f"{path} reaches 2.5, outside [-1, 1]: the values beyond were clipped.",)
    assert peak_dbfs(recording.samples) == 0.0


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
@pytest.mark.parametrize("subtype", ("FLOAT", "DOUBLE"))
def test_a_value_that_is_no_number_is_an_error_with_its_time(tmp_path, value, subtype):
    samples = np.repeat(tone(8_000, 40.0)[:, None], 2, axis=1)
    samples[240_000, 1] = value
    assert "NaN or infinity at 30.000 s" in sentence(write(tmp_path / "a.wav", samples, 8_000, subtype))


@pytest.mark.parametrize("length", (1, 4, 11, 12, 20, 35, 36, 40, 43, 44, 45))
def test_a_truncated_header_is_an_error(tmp_path, length):
    whole = write(tmp_path / "whole.wav", tone(16_000)).read_bytes()
    path = tmp_path / "a.wav"
    path.write_bytes(whole[:length])
    sentence(path)


@pytest.mark.parametrize("how", ({}, {"format": "WAVEX"}, {"format": "RF64"}, {"endian": "BIG"}))
def test_truncated_data_is_read_with_a_warning(tmp_path, how):
    path = write(tmp_path / "a.wav", tone(16_000, 2.0), **how)
    os.truncate(path, path.stat().st_size - 32_000)
    recording = read_wav(path)
    assert recording.warnings == (f"{path} is cut short: its header says 2.00 s, the file holds 1.00 s.",)
    assert_is_tone(recording, 0.5)


@pytest.mark.parametrize("size", (0x7FFFFFFF, 0xFFFFFFFF))
def test_a_size_left_unknown_by_a_pipe_is_no_defect(tmp_path, size):
    path = write(tmp_path / "a.wav", tone(16_000))
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", size)
    path.write_bytes(content)
    recording = read_wav(path)
    assert recording.warnings == ()
    assert_is_tone(recording, 0.5)


def test_chunks_before_and_after_the_data_are_passed_over(tmp_path):
    path = write(tmp_path / "a.wav", tone(16_000))
    content = path.read_bytes()
    odd_chunk = b"LIST" + struct.pack("<I", 5) + b"INFOx\0"
    path.write_bytes(content[:36] + odd_chunk + content[36:] + odd_chunk)
    recording = read_wav(path)
    assert recording.warnings == ()
    assert_is_tone(recording, 0.5)


def patched(path: Path, offset: int, value: bytes) -> Path:
    content = bytearray(write(path, tone(16_000)).read_bytes())
    content[offset : offset + len(value)] = value
    path.write_bytes(content)
    return path


def test_hostile_headers_are_errors(tmp_path):
    path = tmp_path / "a.wav"
    sentence(patched(path, 24, b"\0\0\0\0"))  # no rate
    sentence(patched(path, 24, b"\xff\xff\xff\xff"))  # a negative rate
    sentence(patched(path, 22, b"\0\0"))  # no channels
    sentence(patched(path, 22, struct.pack("<H", 2000)))  # too many channels
    sentence(patched(path, 20, struct.pack("<H", 0x1234)))  # no such encoding
    assert "not a WAV file" in sentence(patched(path, 8, b"AVI "))


@pytest.mark.parametrize("rate_hz", (4_000, 7_999, 96_001, 192_000))
def test_rates_outside_8_to_96_khz_are_errors(tmp_path, rate_hz):
    assert "8 to 96 kHz" in sentence(write(tmp_path / "a.wav", tone(rate_hz), rate_hz))


def test_what_is_not_a_wav_file_is_an_error(tmp_path):
    text = tmp_path / "text.wav"
    text.write_text("hello world " * 100)
    assert "not a WAV file" in sentence(text)
    assert "not a WAV file" in sentence(write(tmp_path / "flac.wav", tone(16_000), format="FLAC"))
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert "is empty" in sentence(empty)
    assert "not a file" in sentence(tmp_path)
    assert "not a file" in sentence(Path("/dev/zero"))
    assert "No such file" in sentence(tmp_path / "missing.wav")
    assert "cannot be read" in sentence(tmp_path / ("long" * 100))
    assert "no samples" in sentence(write(tmp_path / "none.wav", np.zeros(0)))


def test_a_file_without_permission_is_an_error(tmp_path, monkeypatch):
    path = write(tmp_path / "a.wav", tone(16_000))

    def refuse(*arguments, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in sentence(path)


def test_more_than_an_hour_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.wav"
    with soundfile.SoundFile(path, "w", 8_000, 1, "PCM_U8") as file:
        for _ in range(61):
            file.write(np.zeros(60 * 8_000, np.float32))
    assert "61 minutes long: give a recording of at most 60 minutes" in sentence(path)


def test_silence_is_an_error_only_where_sound_is_required(tmp_path):
    silent = read_wav(write(tmp_path / "silent.wav", np.zeros(16_000)))
    with pytest.raises(TurnscopeError, match=r"silent \(all its samples are zero\)"):
        require_sound(silent)
    faint = read_wav(write(tmp_path / "faint.wav", tone(16_000, amplitude=0.0007)))
    with pytest.raises(TurnscopeError, match=r"silent \(its peak is -63 dBFS\)"):
        require_sound(faint)
    require_sound(read_wav(write(tmp_path / "quiet.wav", tone(16_000, amplitude=0.002))))


def test_peak_level():
    assert peak_dbfs(np.array([0.0, -0.5], np.float32)) == pytest.approx(-6.02, abs=0.01)
    assert peak_dbfs(np.zeros(10, np.float32)) == -np.inf
    assert peak_dbfs(np.zeros(0, np.float32)) == -np.inf


@pytest.mark.parametrize("rate_hz", (16_000, 22_050, 48_000))
def test_first_audible_sample(rate_hz):
    window = round(0.010 * rate_hz)
    noise = 10 ** (-52 / 20) * np.sqrt(2) * tone(rate_hz, 0.2, 1.0, 1000)
    voice = 10 ** (-48 / 20) * np.sqrt(2) * tone(rate_hz, 0.1, 1.0, 1000)
    start = first_audible_sample(np.concatenate((noise, voice)).astype(np.float32), rate_hz)
    assert start is not None and start % window == 0
    assert len(noise) - window < start <= len(noise) + window
    assert first_audible_sample(noise.astype(np.float32), rate_hz) is None


def test_first_audible_sample_needs_a_whole_window():
    loud = np.ones(159, np.float32)
    assert first_audible_sample(loud, 16_000) is None
    assert first_audible_sample(np.ones(160, np.float32), 16_000) == 0
    assert first_audible_sample(np.zeros(0, np.float32), 16_000) is None
