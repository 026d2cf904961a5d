"""Both sides of a conversation for whoever records it: what the user said, and what left the edge meanwhile."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.audio.output_track import OutputTrack
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleTimes

PACKET_SAMPLES = CAPTURE_RATE_HZ // 50
APART_S = 0.01  # so far may the two sides be from having happened at once


class Recorder(Protocol):
    """Takes both sides of the conversation as the clock runs: user at 16 kHz, agent at the track's rate, equal
    times."""

    def record(self, user: NDArray[np.float32], agent: NDArray[np.float32]) -> None: ...


class Output(Protocol):
    """What leaves the edge, by its own clock: an `OutputTrack` that nobody else reads, or a `Tape` of one."""

    @property
    def clock(self) -> SampleTimes: ...

    def read(self, start_sample: int, count: int) -> NDArray[np.float32]: ...


class Tape:
    """What an edge has read of its track, to be read once more. The edge may read from a thread of its own."""

    def __init__(self, track: OutputTrack):
        self.clock = track.clock
        self._pieces: deque[tuple[int, NDArray[np.float32]]] = deque(maxlen=30_000)  # minutes of them
        track.on_read = lambda start, samples: self._pieces.append((start, samples))

    def read(self, start_sample: int, count: int) -> NDArray[np.float32]:
        """The samples `start_sample` to `start_sample + count`, silence where nothing was read; what lies before is
        forgotten."""
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start_sample:
            self._pieces.popleft()
        out = np.zeros(count, np.float32)
        for start, samples in list(self._pieces):
            first, last = max(start, start_sample), min(start + len(samples), start_sample + count)
            if first < last:
                out[first - start_sample : last - start_sample] = samples[first - start : last - start]
        return out


class BothSides:
    """Gives a recorder both sides without a gap, from the first packet on."""

    def __init__(self, capture: SampleTimes, output: Output, recorder: Recorder):
        self._capture = capture
        self._output = output
        self._recorder = recorder
        self._end: int | None = None
        self._next_out: int | None = None

    async def follow(self, packets: AsyncIterator[Packet]) -> AsyncIterator[Packet]:
        """The same packets."""
        async for packet in packets:
            self.add(packet)
            yield packet

    def add(self, packet: Packet) -> None:
        """What the user said, after silence if there is a gap before it, and what the agent said meanwhile."""
        self.fill(packet.start_sample)
        self._record(packet.start_sample, packet.samples)

    def fill(self, until: int) -> None:
        """The user was silent until there, in whole packets."""
        if self._end is not None and (missing := until - self._end) > 0:
            self._record(self._end, np.zeros(missing + -missing % PACKET_SAMPLES, np.float32))

    def _record(self, start: int, user: NDArray[np.float32]) -> None:
        self._end = start + len(user)
        rate_hz = self._output.clock.rate_hz
        count = self._end * rate_hz // CAPTURE_RATE_HZ - start * rate_hz // CAPTURE_RATE_HZ
        first = self._output.clock.sample_at(self._capture.ns_of(start))
        if self._next_out is not None and abs(first - self._next_out) <= APART_S * rate_hz:
            first = self._next_out
        self._next_out = first + count
        self._recorder.record(user, self._output.read(first, count))
