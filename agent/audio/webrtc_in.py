"""Sound that comes over RTP: decoded frames are put where their time stamps say, on our clock."""

from collections import deque

import numpy as np
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcrtpreceiver import RTCRtpReceiver
from aiortc.rtp import RtpPacket
from aiortc.utils import uint16_add
from numpy.typing import NDArray

from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet
from agent.errors import TurnscopeError

RTP_RATE_HZ = 48_000
RATIO = RTP_RATE_HZ // CAPTURE_RATE_HZ
EARLY = RTP_RATE_HZ // 500  # 2 ms: a frame that comes so much before its time shows that its line was put too late
LATE = RTP_RATE_HZ // 100  # 10 ms: and if every one comes so late for a while, it was put too early, or clocks drift
WINDOW_FRAMES = 250  # that while
AHEAD = RTP_RATE_HZ // 4  # no frame is put further ahead of its coming than this
QUIET = 0.01  # -40 dBFS: a line is moved where nothing is said, so that no word loses a piece
_BUFFER = "_RTCRtpReceiver__jitter_buffer"

Samples = NDArray[np.float32]


class PassThrough(JitterBuffer):
    """A jitter buffer that holds nothing back: packets pass in order, and what comes too late is dropped. Holes are
    filled by time stamp; aiortc's own buffer waits at each of them and then stays full."""

    def __init__(self) -> None:
        super().__init__(capacity=16)
        self._newest: int | None = None

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        number = packet.sequence_number
        if self._newest is not None and not 0 < uint16_add(number, -self._newest) < 0x8000:
            return False, None
        self._newest = number
        data: bytes = packet._data  # pyright: ignore[reportAttributeAccessIssue]  # the depayloaded sound
        return False, JitterFrame(data, packet.timestamp)


def pass_through(receiver: RTCRtpReceiver) -> None:
    """Make the receiver give each packet on at once. Raises TurnscopeError when aiortc is not as it was."""
    if not isinstance(getattr(receiver, _BUFFER, None), JitterBuffer):
        raise TurnscopeError("This version of aiortc is not one that Turnscope works with: install aiortc 1.16.")
    setattr(receiver, _BUFFER, PassThrough())


class Placer:
    """Makes packets without a gap of the frames of one line after another. Positions count samples at 48 kHz on the
    capture's clock; `now` is the one at which a frame has arrived."""

    def __init__(self, now: int):
        self._next = now - now % RATIO
        self._given = self._next // RATIO
        self._resampler = Resampler(RTP_RATE_HZ, CAPTURE_RATE_HZ, "LQ")
        self._base: int | None = None
        self._lateness: deque[int] = deque(maxlen=WINDOW_FRAMES)

    def new_line(self) -> None:
        """The next frame's time stamp counts from anew."""
        self._base = None

    def frame(self, stamp: int, samples: Samples, now: int) -> Packet | None:
        """Float32 (n,) mono at 48 kHz. Silence comes before it where frames are missing; what lies where something has
        been given out already is dropped."""
        start = self._position(stamp, len(samples), now, bool(np.sqrt(np.mean(samples**2)) < QUIET))
        fresh = samples[max(0, self._next - start) :]
        if not len(fresh):
            return None
        return self._push(np.concatenate([np.zeros(max(0, start - self._next), np.float32), fresh]))

    def silence(self, until: int) -> Packet | None:
        """Nothing came for the time up to there."""
        missing = until - self._next
        return self._push(np.zeros(missing, np.float32)) if missing > 0 else None

    def _position(self, stamp: int, count: int, now: int, quiet: bool) -> int:
        """Where the frame begins. That which took least time to come tells when its last sample was captured."""
        if self._base is None:
            self._lateness.clear()
            self._base = now - count - stamp
        late = now - (self._base + stamp + count)
        self._lateness.append(late)
        least = min(self._lateness)
        if late < -AHEAD or (late < -EARLY and quiet):
            self._shift(late)
        elif len(self._lateness) == WINDOW_FRAMES and least > LATE and quiet:
            self._shift(least)
        return self._base + stamp

    def _shift(self, samples: int) -> None:
        self._base = (self._base or 0) + samples
        self._lateness.clear()

    def _push(self, samples: Samples) -> Packet | None:
        self._next += len(samples)
        out = self._resampler.push(samples)
        if not len(out):
            return None
        start, self._given = self._given, self._given + len(out)
        return Packet(start, out)
