"""Streams of a sound device. Their callbacks run on PortAudio's threads: they copy, and pass on what they saw."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.audio.device_clock import DeviceClock
from agent.audio.output_track import OutputTrack
from agent.audio.resample import Resampler
from agent.audio.sound_devices import Format, Kind, SoundDevice, cannot_open, format_of, library
from profiling.trace.clock import NS_PER_S, Clock

Samples = NDArray[np.float32]
_INPUT_LATENCY_S = 0.03
_OUTPUT_LATENCY_S = 0.04  # with less, blocks that come late are heard
_READ_AHEAD_S = 0.005  # how much of the track is read at once


@dataclass(frozen=True)
class Block:
    """What a callback was about. The stream's frame number `frame` crosses the device at `at_ns`; `broken`: sound was
    lost or came late. `samples`: of an input, what was captured, mono at the device's rate; of an output, what was read
    from the track, beginning at its sample `start`."""

    frame: int
    at_ns: int
    broken: bool
    samples: Samples
    start: int = 0


class _TimeInfo(Protocol):
    """PortAudio's, in seconds on a clock of the host's choice."""

    currentTime: float
    inputBufferAdcTime: float
    outputBufferDacTime: float


class _Stream(ABC):
    """What both directions share. `deliver` and `gone` are called on PortAudio's thread; `gone` when the stream ends
    and was not closed, which `ended` says too."""

    kind: Kind

    def __init__(
        self,
        device: SoundDevice,
        clock: Clock,
        deliver: Callable[[Block], None],
        gone: Callable[[], None],
    ):
        self.device = device
        self.format: Format = format_of(device, self.kind)
        self.heard_ns = clock.now_ns()  # when the device last called
        self.ended = False
        self._clock = clock
        self._deliver = deliver
        self._gone = gone
        self._closing = False
        self._frames = 0
        self._stream: Any = None

    def is_gone(self, silent_s: float) -> bool:
        """Whether the stream has ended, or not called for so long."""
        return self.ended or self._clock.now_ns() - self.heard_ns > silent_s * NS_PER_S

    def start(self) -> None:
        """Raises TurnscopeError when the device cannot be opened."""
        sounddevice = library()
        make = sounddevice.InputStream if self.kind == "input" else sounddevice.OutputStream
        try:
            self._stream = make(
                samplerate=self.format.rate_hz,
                channels=self.format.channels,
                device=self.device.number,
                dtype="float32",
                latency=_INPUT_LATENCY_S if self.kind == "input" else _OUTPUT_LATENCY_S,
                callback=self._callback,
                finished_callback=self._finished,
            )
            self._stream.start()
            self.heard_ns = max(self.heard_ns, self._clock.now_ns())
        except (sounddevice.PortAudioError, ValueError) as error:
            self.close()
            raise cannot_open(self.device, self.kind, error) from None

    def close(self) -> None:
        """Stop at once; what the device still had to play is dropped."""
        self._closing = True
        if self._stream is not None:
            with suppress(library().PortAudioError):  # a device that is gone cannot be stopped
                self._stream.abort()
            with suppress(library().PortAudioError):
                self._stream.close()

    def _finished(self) -> None:
        if not self._closing:
            self.ended = True
            self._gone()

    def _at_ns(self, edge_s: float, time_info: _TimeInfo) -> int:
        """When the block's first frame crosses: the host's clock may be any, its differences are true. A host that
        gives no time is taken at its latency."""
        self.heard_ns = self._clock.now_ns()
        if edge_s and time_info.currentTime:
            away_s = edge_s - time_info.currentTime
        else:
            away_s = -self._stream.latency if self.kind == "input" else self._stream.latency
        return self.heard_ns + round(away_s * NS_PER_S)

    @abstractmethod
    def _callback(self, data: Samples, frames: int, time_info: _TimeInfo, status: Any) -> None: ...


class InputStream(_Stream):
    """A microphone: delivers each block as mono, the mean of its channels."""

    kind = "input"

    def _callback(self, data: Samples, frames: int, time_info: _TimeInfo, status: Any) -> None:
        at_ns = self._at_ns(time_info.inputBufferAdcTime, time_info)
        mono = data.mean(axis=1, dtype=np.float32)  # a copy: the device uses the block again
        self._deliver(Block(self._frames, at_ns, bool(status), mono))
        self._frames += frames


class OutputStream(_Stream):
    """A loudspeaker: plays the track on all channels, from the moment at which the device's clock has settled."""

    kind = "output"

    def __init__(
        self,
        device: SoundDevice,
        clock: Clock,
        deliver: Callable[[Block], None],
        gone: Callable[[], None],
        times: DeviceClock,
        track: OutputTrack,
    ):
        super().__init__(device, clock, deliver, gone)
        self._times = times
        self._track = track
        self._reader: TrackReader | None = None

    def _callback(self, data: Samples, frames: int, time_info: _TimeInfo, status: Any) -> None:
        at_ns = self._at_ns(time_info.outputBufferDacTime, time_info)
        if self._reader is None and self._times.settled:
            self._reader = TrackReader(self._track, self._times.sample_of(self._frames), self.format.rate_hz)
        if self._reader is None:
            data.fill(0)
            self._deliver(Block(self._frames, at_ns, bool(status), np.zeros(0, np.float32)))
        else:
            start = self._reader.next_sample
            sound, read = self._reader.take(frames)
            data[:] = sound[:, None]
            self._deliver(Block(self._frames, at_ns, bool(status), read, start))
        self._frames += frames


class TrackReader:
    """The track at a device's rate, from its sample `start` on. It reads ahead by what the resampler holds back: at
    most 22 ms."""

    def __init__(self, track: OutputTrack, start: int, rate_hz: int):
        self.next_sample = start
        self._track = track
        self._read_ahead = round(track.clock.rate_hz * _READ_AHEAD_S)
        self._resampler = Resampler(track.clock.rate_hz, rate_hz, "LQ")
        self._ready = np.zeros(0, np.float32)

    def take(self, frames: int) -> tuple[Samples, Samples]:
        """The next frames for the device, in [-1, 1], and the samples of the track that were read for them."""
        read: list[Samples] = [np.zeros(0, np.float32)]
        while len(self._ready) < frames:
            read.append(self._track.read(self.next_sample, self._read_ahead))
            self.next_sample += self._read_ahead
            self._ready = np.concatenate([self._ready, self._resampler.push(read[-1])])
        out, self._ready = self._ready[:frames], self._ready[frames:]
        return np.clip(out, -1, 1), np.concatenate(read)
