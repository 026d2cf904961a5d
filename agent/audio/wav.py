"""Recordings in: any WAV file becomes mono at 16 kHz, with levels in dBFS (0 dBFS: an amplitude of 1)."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.errors import TurnscopeError

LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 8_000, 96_000
LONGEST_S = 3_600
SHORTEST_S = 0.1
SILENCE_DBFS = -60.0  # peak: 33 steps of a 16-bit file, where no speech is recorded on purpose
AUDIBLE_DBFS = -50.0
CLIPPED_RUN = 3  # samples at full scale in a row that count as clipping
_CONTAINERS = ("WAV", "WAVEX", "RF64")
_BITS = {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24}  # others reach 1.0 as float32
_SIZE_UNKNOWN = 0x7FFF0000  # programs that write to a pipe declare this much or more
_BLOCK_SAMPLES = 1 << 18


@dataclass(frozen=True, eq=False)
class Recording:
    """A WAV file as the pipeline hears it: `samples` is float32 (n,) in [-1, 1], mono at 16 kHz, n > 0.

    `source_rate_hz`, `channels` and `subtype` (libsndfile's name, such as "PCM_16") say what the file itself holds;
    `warnings` are sentences about what is wrong with it though it can be used.
    """

    path: Path
    samples: NDArray[np.float32]
    source_rate_hz: int
    channels: int
    subtype: str
    warnings: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / CAPTURE_RATE_HZ


def read_wav(path: Path) -> Recording:
    """Read a WAV file (also WAVE_FORMAT_EXTENSIBLE, RIFX and RF64) and convert it to mono at 16 kHz.

    Takes every sample format that libsndfile decodes: integers of 8 to 32 bits, 32 and 64 bit floats, mu-law, A-law,
    ADPCM; 8 to 96 kHz; any number of channels, which are mixed down by their mean. Clipping, float values outside
    [-1, 1] (which are clipped) and a file shorter than its header says give warnings. Raises TurnscopeError for
    anything that is not such a file, for one without samples, with NaN or infinity, or longer than an hour.
    """
    _check_is_wav(path)
    try:
        with soundfile.SoundFile(path) as file:
            _check_format(path, file)
            defects = _Defects(path, file.subtype, file.samplerate, file.channels)
            samples = _decode(file, defects)
            warnings = (*_cut_short(path, file.frames / file.samplerate), *defects.warnings())
            return Recording(path, samples, file.samplerate, file.channels, file.subtype, warnings)
    except soundfile.SoundFileError as error:
        reason = str(getattr(error, "error_string", error)).rstrip(".")
        raise TurnscopeError(f"{path} is a damaged or unsupported WAV file: {reason}.") from None


def require_sound(recording: Recording) -> None:
    """Raise TurnscopeError when there is nothing in the recording to answer: it is shorter than 0.1 s, or its peak lies
    below -60 dBFS."""
    if recording.duration_s < SHORTEST_S:
        raise TurnscopeError(f"{recording.path} is {recording.duration_s:.4f} s long: too short to hold speech.")
    peak = peak_dbfs(recording.samples)
    if peak < SILENCE_DBFS:
        what = "its samples" if recording.channels == 1 else "samples of its mixed channels"
        level = f"all {what} are zero" if peak == -np.inf else f"its peak is {peak:.0f} dBFS"
        raise TurnscopeError(
            f"{recording.path} is silent ({level}): give a recording that peaks above {SILENCE_DBFS:.0f} dBFS."
        )


def peak_dbfs(samples: NDArray[np.float32]) -> float:
    """The largest amplitude in dBFS; minus infinity for digital silence or no samples."""
    peak = float(np.max(np.abs(samples), initial=0.0))
    return 20 * float(np.log10(peak)) if peak > 0 else -np.inf


def first_audible_sample(
    samples: NDArray[np.float32], rate_hz: int, threshold_dbfs: float = AUDIBLE_DBFS, window_s: float = 0.010
) -> int | None:
    """Where a reply becomes audible: the start of the first 10 ms whose RMS is at or above -50 dBFS, else None.

    The 10 ms windows follow one another from sample 0 without overlap; an incomplete one at the end does not count.
    """
    window = round(window_s * rate_hz)
    whole = samples[: len(samples) // window * window].reshape(-1, window)
    power = np.mean(np.square(whole, dtype=np.float64), axis=1)
    loud = np.flatnonzero(power >= 10 ** (threshold_dbfs / 10))
    return int(loud[0]) * window if len(loud) else None


def _check_is_wav(path: Path) -> None:
    try:
        if path.exists() and not path.is_file():
            raise TurnscopeError(f"{path} is not a file: give a WAV file.")
        with path.open("rb") as file:
            start = file.read(12)
    except OSError as error:
        raise TurnscopeError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not start:
        raise TurnscopeError(f"{path} is empty: give a WAV file.")
    if start[:4] not in (b"RIFF", b"RIFX", b"RF64") or (len(start) == 12 and start[8:] != b"WAVE"):
        raise TurnscopeError(f"{path} is not a WAV file: convert it to WAV first.")


def _check_format(path: Path, file: soundfile.SoundFile) -> None:
    if file.format not in _CONTAINERS:
        raise TurnscopeError(f"{path} holds {file.format} audio: convert it to WAV first.")
    if not LOWEST_RATE_HZ <= file.samplerate <= HIGHEST_RATE_HZ:
        raise TurnscopeError(f"{path} has {file.samplerate} samples per second: give one of 8 to 96 kHz.")
    if file.frames == 0:
        raise TurnscopeError(f"{path} holds no samples: give a recording that is not empty.")
    if file.frames > LONGEST_S * file.samplerate:
        minutes = file.frames / file.samplerate / 60
        raise TurnscopeError(
            f"{path} is {minutes:.0f} minutes long: give a recording of at most {LONGEST_S // 60} minutes."
        )


def _decode(file: soundfile.SoundFile, defects: "_Defects") -> NDArray[np.float32]:
    resampler = Resampler(file.samplerate, CAPTURE_RATE_HZ)
    pieces: list[NDArray[np.float32]] = []
    for values in file.blocks(max(1, _BLOCK_SAMPLES // file.channels), dtype="float32", always_2d=True):
        block = np.asarray(values, np.float32)
        defects.look_at(block)
        pieces.append(resampler.push(np.clip(block, -1, 1).mean(axis=1)))
    pieces.append(resampler.flush())
    return np.clip(np.concatenate(pieces), -1, 1)


def _cut_short(path: Path, duration_s: float) -> tuple[str, ...]:
    declared, present = _data_bytes(path)
    if declared <= present:
        return ()
    whole_s = duration_s * declared / present
    return (f"{path} is cut short: its header says {whole_s:.2f} s, the file holds {duration_s:.2f} s.",)


def _data_bytes(path: Path) -> tuple[int, int]:
    """The bytes of the data chunk that the header declares (0 when unknown), and those that are really there."""
    with path.open("rb") as file:
        order = ">" if file.read(12).startswith(b"RIFX") else "<"
        long_size = 0
        while len(head := file.read(8)) == 8:
            name, size = struct.unpack(f"{order}4sI", head)
            body = file.tell()
            if name == b"data":
                return (size if size < _SIZE_UNKNOWN else long_size), path.stat().st_size - body
            if name == b"ds64" and size >= 16:
                (long_size,) = struct.unpack("<8xQ", file.read(16))
            file.seek(body + size + size % 2)
    return 0, 0


class _Defects:
    """What is wrong with a file's samples, gathered block by block."""

    def __init__(self, path: Path, subtype: str, rate_hz: int, channels: int):
        self._path = path
        self._rate_hz = rate_hz
        self._is_float = subtype in ("FLOAT", "DOUBLE")
        self._full_scale = 1.0 - 2.0 ** (1 - _BITS[subtype]) if subtype in _BITS else 1.0
        self._frames = 0
        self._peak = 0.0
        self._clipped_runs = 0
        self._tail = np.zeros((CLIPPED_RUN, channels), bool)

    def look_at(self, block: NDArray[np.float32]) -> None:
        """Count the defects of a block (n, channels). Raises TurnscopeError at the first NaN or infinity."""
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            at_s = (self._frames + int(np.argmin(finite))) / self._rate_hz
            raise TurnscopeError(f"{self._path} holds a NaN or infinity at {at_s:.3f} s: export the recording again.")
        amplitude = np.abs(block)
        self._peak = max(self._peak, float(amplitude.max()))
        full = np.concatenate((self._tail, amplitude >= self._full_scale))
        starts = full[CLIPPED_RUN:] & ~full[:-CLIPPED_RUN]  # the run reached its length here
        for back in range(1, CLIPPED_RUN):
            starts &= full[CLIPPED_RUN - back : -back]
        self._clipped_runs += int(starts.sum())
        self._tail = full[-CLIPPED_RUN:]
        self._frames += len(block)

    def warnings(self) -> tuple[str, ...]:
        if self._is_float and self._peak > 1.0:
            return (f"{self._path} reaches {self._peak:.3g}, outside [-1, 1]: the values beyond were clipped.",)
        if self._clipped_runs:
            places = "1 place" if self._clipped_runs == 1 else f"{self._clipped_runs} places"
            return (f"{self._path} is clipped in {places}: record it at a lower level.",)
        return ()
