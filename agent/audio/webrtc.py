"""The edge of a caller over WebRTC: one user, one line at a time; a new line may take over where an old one fails."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from fractions import Fraction

import numpy as np
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame
from numpy.typing import NDArray

from agent.audio.frame_clock import FRAME_NS, FrameClock
from agent.audio.output_track import OutputTrack
from agent.audio.pace import sleep_until
from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock
from agent.audio.webrtc_in import RATIO, RTP_RATE_HZ, Placer, pass_through
from profiling.trace.clock import Clock

__all__ = ["WebRtcEdge", "pass_through"]

FRAME_SAMPLES = RTP_RATE_HZ // 50
READ_S = 0.0025  # of the voice's sound at a time, until a frame is full
STALL_S = 0.3  # without a frame for so long, silence is taken to have come ...
TICK_S = 0.05  # ... where we were looking: after a stall of our own, what came meanwhile is still to be taken


class WebRtcEdge:
    """Time of capture is the time at which a frame arrived, for the one of a line that took least to come; sound leaves
    when its frame is handed to the RTP sender."""

    def __init__(self, clock: Clock, rate_hz: int):
        """`rate_hz` is the voice's."""
        self._clock = clock
        origin_ns = clock.now_ns()
        self._capture = SampleClock(origin_ns, CAPTURE_RATE_HZ)
        self._frames = FrameClock(origin_ns, rate_hz)
        self._track = OutputTrack(self._frames)
        self._sender = FrameSender(clock, self._track, self._frames)
        self._placer: Placer | None = None
        self._came: deque[Packet] = deque()
        self._changed = asyncio.Event()
        self._fresh = False  # a frame came since we last looked
        self._gone = False

    @property
    def capture(self) -> SampleClock:
        return self._capture

    @property
    def track(self) -> OutputTrack:
        return self._track

    def outgoing(self) -> "Outgoing":
        """The reply's sound for a line; it waits until the line is `taken`."""
        return Outgoing(self._sender)

    async def listen(self, incoming: MediaStreamTrack, on_frame: Callable[[], None]) -> None:
        """Take the line's sound until it ends; `on_frame` is called for every frame."""
        if self._placer:
            self._placer.new_line()
        with suppress(MediaStreamError):
            while True:
                frame = await incoming.recv()
                on_frame()
                self._fresh = True
                if isinstance(frame, AudioFrame) and self._placer and frame.pts is not None:
                    self._take(self._placer.frame(frame.pts, mono(frame), self._now()))

    async def packets(self) -> AsyncIterator[Packet]:
        """From now on, until `hang_up`."""
        self._placer = Placer(self._now())
        loop, missing_s = asyncio.get_running_loop(), 0.0
        while not self._gone:
            while self._came:
                yield self._came.popleft()
            if self._fresh:
                self._fresh, missing_s = False, 0.0
            self._changed.clear()
            since_s = loop.time()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._changed.wait()
            except TimeoutError:
                missing_s += min(loop.time() - since_s, 2 * TICK_S)
                if missing_s >= STALL_S:
                    self._take(self._placer.silence(self._now() - round(STALL_S * RTP_RATE_HZ)))

    def hang_up(self) -> None:
        self._gone = True
        self._changed.set()

    def _take(self, packet: Packet | None) -> None:
        if packet is not None:
            self._came.append(packet)
            self._changed.set()

    def _now(self) -> int:
        """On the capture's clock, in samples at 48 kHz."""
        return self._capture.sample_at(self._clock.now_ns()) * RATIO


class FrameSender:
    """Makes frames of 48 kHz from the output track, each when its time has come."""

    def __init__(self, clock: Clock, track: OutputTrack, frames: FrameClock):
        self._clock = clock
        self._track = track
        self._frames = frames
        self._resampler = Resampler(frames.rate_hz, RTP_RATE_HZ, "LQ")
        self._ready = np.zeros(0, np.float32)
        self._next_frame = self._read_to = 0
        self._skipped = 0

    def begin(self) -> None:
        """A line begins to send: what should have left before is left out."""
        frame = self._frames.frame_at(self._clock.now_ns())
        while self._frames.first_sample(frame) < self._read_to:
            frame += 1
        self._next_frame, self._read_to = frame, self._frames.first_sample(frame)
        self._resampler = Resampler(self._frames.rate_hz, RTP_RATE_HZ, "LQ")
        self._ready = np.zeros(0, np.float32)

    async def next(self) -> AudioFrame:
        """The next frame, at its time. After a stall of a frame's length or more the sound goes on where it stopped,
        with a later time stamp: no burst, and nothing lost."""
        number = self._next_frame
        await sleep_until(self._clock, self._frames.leaves_ns(number))
        late = (self._clock.now_ns() - self._frames.leaves_ns(number)) // FRAME_NS
        if late > 0:
            self._frames.stalled(number, late)
            self._skipped += late
        self._next_frame += 1
        return audio_frame(self._samples(), (number + self._skipped) * FRAME_SAMPLES)

    def _samples(self) -> NDArray[np.float32]:
        count = round(READ_S * self._frames.rate_hz)
        while len(self._ready) < FRAME_SAMPLES:
            read = self._track.read(self._read_to, count)
            self._read_to += count
            self._ready = np.concatenate([self._ready, self._resampler.push(read)])
        out, self._ready = self._ready[:FRAME_SAMPLES], self._ready[FRAME_SAMPLES:]
        return out


class Outgoing(MediaStreamTrack):
    """What an RTP sender sends."""

    kind = "audio"

    def __init__(self, sender: FrameSender):
        super().__init__()
        self._sender = sender
        self._taken = asyncio.Event()

    def take(self) -> None:
        """This line speaks from now on."""
        self._sender.begin()
        self._taken.set()

    def leave(self) -> None:
        """Another line speaks from now on."""
        self._taken.clear()

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        await self._taken.wait()
        return await self._sender.next()


def mono(frame: AudioFrame) -> NDArray[np.float32]:
    """Float32 (n,) of a decoded frame: 16-bit, interleaved, of any number of channels."""
    samples = frame.to_ndarray().reshape(-1, len(frame.layout.channels))
    return samples.mean(axis=1, dtype=np.float32) / np.float32(32768)


def audio_frame(samples: NDArray[np.float32], stamp: int) -> AudioFrame:
    """16-bit mono at 48 kHz; clipped, since a resampler's filter may overshoot."""
    whole = np.rint(np.clip(samples, -1.0, 1.0) * 32767).astype(np.int16)
    frame = AudioFrame.from_ndarray(whole[np.newaxis], format="s16", layout="mono")
    frame.sample_rate = RTP_RATE_HZ
    frame.pts = stamp
    frame.time_base = Fraction(1, RTP_RATE_HZ)
    return frame
