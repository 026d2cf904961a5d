"""The conversation out: a stereo WAV file that is readable at every moment while it grows."""

import struct
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from agent.errors import TurnscopeError


class StereoWriter:
    """Writes a 16-bit stereo WAV file piece by piece. After every `append` the file is complete and readable, so a run
    that is killed keeps what it had. Raises TurnscopeError when the file cannot be written."""

    _HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
    _LARGEST_BYTES = 0xFFFFFFFF - _HEADER.size

    def __init__(self, path: Path, rate_hz: int):
        self._path = path
        self._rate_hz = rate_hz
        self._data_bytes = 0
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise self._failed(error) from None
        try:
            self._write(0, self._header(0))
        except OSError as error:
            self._file.close()
            raise self._failed(error) from None

    @property
    def frames(self) -> int:
        """Sample pairs written so far."""
        return self._data_bytes // 4

    def append(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
        """Add float32 (n,) to each channel, clipped to [-1, 1]. A failed append leaves the file as it was before."""
        scaled = np.rint(np.stack((left, right), axis=1) * 32768.0)
        data = np.clip(scaled, -32768, 32767).astype("<i2").tobytes()
        if self._data_bytes + len(data) > self._LARGEST_BYTES:
            raise TurnscopeError(f"{self._path} has reached 4 GB, the most a WAV file can hold: start a new run.")
        end = self._HEADER.size + self._data_bytes
        try:
            self._write(end, data)
            self._write(0, self._header(self._data_bytes + len(data)))
        except OSError as error:
            with suppress(OSError):  # what lies behind the declared end is only untidy
                self._file.truncate(end)
            raise self._failed(error) from None
        self._data_bytes += len(data)

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        try:
            self._file.close()
        except OSError as error:
            raise self._failed(error) from None

    def __enter__(self) -> "StereoWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _header(self, data_bytes: int) -> bytes:
        size = self._HEADER.size - 8 + data_bytes
        layout = (16, 1, 2, self._rate_hz, self._rate_hz * 4, 4, 16)  # PCM, two channels, four bytes a frame
        return self._HEADER.pack(b"RIFF", size, b"WAVE", b"fmt ", *layout, b"data", data_bytes)

    def _write(self, position: int, data: bytes) -> None:
        self._file.seek(position)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _failed(self, error: OSError) -> TurnscopeError:
        return TurnscopeError(
            f"The recording {self._path} cannot be written ({error.strerror or error}): choose another folder."
        )
