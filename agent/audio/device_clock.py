"""When samples cross a sound device, learnt from what the device says of each block: drift, gaps and restarts
included."""

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from statistics import median

from profiling.trace.clock import NS_PER_S

_WINDOW_NS = 2 * NS_PER_S  # the origin is a median over so long
_SETTLE_NS = NS_PER_S // 10  # a stream has settled when the halves of so long agree; single blocks may be 10 ms off
_AGREE_NS = NS_PER_S // 500
_PATIENCE_NS = 2 * NS_PER_S  # and counts as settled after so long whatever it says
_STEP_NS = NS_PER_S // 100  # what is further off is a step, and needs no slewing
_NOISE_NS = NS_PER_S // 1_000  # but after a break that the device reports, what is further off than this
_SURE_NS = 3 * NS_PER_S // 10  # so long is looked at to say whether there was a step
_SLEW_EVERY_NS = NS_PER_S // 4
_SLEW_NS = NS_PER_S // 500
_LINES = 4_096


@dataclass(frozen=True)
class _Line:
    """From sample `start` on, sample s crosses at `origin_ns` + s / rate, but not before `begin_ns`."""

    start: int
    origin_ns: int
    begin_ns: int


@dataclass(frozen=True)
class _Seen:
    """At `at_ns` the device said where its frames lie; `origin_ns` is what that makes of sample 0."""

    at_ns: int
    origin_ns: int


class DeviceClock:
    """The `SampleTimes` of a device. Samples are counted at `rate_hz`, whatever the rate of the device's own frames.

    `begin` says that a stream starts, whose frames are counted from 0; each of its blocks is then `observe`d. Once its
    first blocks, which often carry a backlog, have `settled`, `sample_of` ties frames to samples. A later stream goes
    on with the sample numbers that its time calls for.

    Times keep to the device by the median of what it said in the last two seconds. Drift is followed four times a
    second by half of what is missing, at most 2 ms. A gap is a step: when 0.3 s of blocks are more than 10 ms off, or,
    after a break that the device reports, when it runs evenly again for 0.1 s and is more than 1 ms off. A correction
    holds from the newest block on: what an earlier sample's time was, it stays. With
    `fills_gaps` (a microphone), frames that the device lost are counted as if they had come, since their place is
    filled: `observe` returns how many.
    """

    def __init__(self, rate_hz: int, *, fills_gaps: bool = False):
        self.rate_hz = rate_hz
        self.settled = False
        self._fills_gaps = fills_gaps
        self._frame_rate_hz = rate_hz
        self._base = 0  # the sample of the stream's frame 0
        self._filled = 0  # frames that were lost before now
        self._broken = False
        self._recent: deque[_Seen] = deque()
        self._began_ns: int | None = None
        self._corrected_ns = 0
        self._lines: list[_Line] = []

    def begin(self, frame_rate_hz: int) -> None:
        """A stream starts, of so many frames per second."""
        self.settled = self._broken = False
        self._frame_rate_hz = frame_rate_hz
        self._base = self._filled = 0
        self._began_ns = None
        self._recent.clear()

    def sample_of(self, frame: int) -> int:
        """The sample that crosses together with this frame of the stream."""
        return self._base + round((frame + self._filled) * self.rate_hz / self._frame_rate_hz)

    def observe(self, frame: int, at_ns: int, *, broken: bool = False) -> int:
        """The stream's frame crosses at `at_ns`; `broken`: the device reports that sound was lost or came late before
        it. Returns how many frames are missing before this one, for a clock that fills gaps."""
        if broken:
            self._broken = True
            self._recent.clear()
        self._recent.append(_Seen(at_ns, at_ns - self._since_sample_0(frame)))
        while self._recent[0].at_ns < at_ns - _WINDOW_NS:
            self._recent.popleft()
        if not self.settled:
            self._settle(at_ns)
            return 0
        if self._broken:
            if not self._agrees(at_ns):
                return 0
            self._broken = False
            return self._step_if_off(frame, at_ns, _SETTLE_NS, _NOISE_NS)
        if self._recent[0].at_ns <= at_ns - _SURE_NS and (
            missing := self._step_if_off(frame, at_ns, _SURE_NS, _STEP_NS)
        ):
            return missing
        if at_ns - self._corrected_ns >= _SLEW_EVERY_NS:
            self._slew(frame, at_ns)
        return 0

    def ns_of(self, sample: int) -> int:
        """When the sample of this number crosses the device (monotonic ns). Until the first stream has settled there
        is no answer: IndexError."""
        index = max(0, bisect_right(self._lines, sample, key=lambda line: line.start) - 1)
        line = self._lines[index]
        at_ns = line.origin_ns + sample * NS_PER_S // self.rate_hz
        return max(at_ns, line.begin_ns) if sample >= line.start else at_ns

    def sample_at(self, ns: int) -> int:
        """The first sample that crosses at or after the given time."""
        index = max(0, bisect_left(self._lines, ns, key=lambda line: line.begin_ns) - 1)
        sample = -((self._lines[index].origin_ns - ns) * self.rate_hz // NS_PER_S)
        return min(sample, self._lines[index + 1].start) if index + 1 < len(self._lines) else sample

    def _since_sample_0(self, frame: int) -> int:
        return (frame + self._filled) * NS_PER_S // self._frame_rate_hz + self._base * NS_PER_S // self.rate_hz

    def _agrees(self, at_ns: int) -> bool:
        """Whether what the device said lately is of one mind."""
        if self._recent[0].at_ns > at_ns - _SETTLE_NS:
            return False
        origins = [seen.origin_ns for seen in self._recent if seen.at_ns >= at_ns - 2 * _SETTLE_NS]
        half = len(origins) // 2
        return half > 0 and abs(median(origins[:half]) - median(origins[half:])) <= _AGREE_NS

    def _settle(self, at_ns: int) -> None:
        self._began_ns = at_ns if self._began_ns is None else self._began_ns
        while len(self._recent) > 1 and self._recent[1].at_ns <= at_ns - _SETTLE_NS:
            self._recent.popleft()
        if self._agrees(at_ns) or at_ns - self._began_ns >= _PATIENCE_NS:
            frame_0_ns = round(median(seen.origin_ns for seen in self._recent))
            if self._lines:
                self._base = max(self.sample_at(frame_0_ns), self._lines[-1].start)
            self.settled, self._corrected_ns = True, at_ns
            moved_ns = self._base * NS_PER_S // self.rate_hz
            self._recent = deque(_Seen(seen.at_ns, seen.origin_ns - moved_ns) for seen in self._recent)
            self._correct(self._base, frame_0_ns - moved_ns)

    def _step_if_off(self, frame: int, at_ns: int, over_ns: int, least_ns: int) -> int:
        """Correct by all that the blocks of so long say, if it is much. Returns the frames to fill in."""
        by_ns = round(median(seen.origin_ns for seen in self._recent if seen.at_ns >= at_ns - over_ns))
        by_ns -= self._lines[-1].origin_ns
        if abs(by_ns) <= least_ns:
            return 0
        self._corrected_ns = at_ns
        if not self._fills_gaps or by_ns < 0:
            self._recent = deque(seen for seen in self._recent if seen.at_ns >= at_ns - over_ns // 2)
            self._correct(self.sample_of(frame), self._lines[-1].origin_ns + by_ns)
            return 0
        missing = round(by_ns * self._frame_rate_hz / NS_PER_S)
        self._filled += missing
        self._recent.clear()
        return missing

    def _slew(self, frame: int, at_ns: int) -> None:
        origin_ns = self._lines[-1].origin_ns
        error_ns = round(median(seen.origin_ns for seen in self._recent)) - origin_ns
        self._corrected_ns = at_ns
        self._correct(self.sample_of(frame), origin_ns + max(-_SLEW_NS, min(error_ns // 2, _SLEW_NS)))

    def _correct(self, start: int, origin_ns: int) -> None:
        """From sample `start` on (not before the last correction), times follow from this origin, and never go back."""
        start = max(start, self._lines[-1].start) if self._lines else start
        begin_ns = origin_ns + start * NS_PER_S // self.rate_hz
        self._lines.append(_Line(start, origin_ns, max(begin_ns, self.ns_of(start)) if self._lines else begin_ns))
        del self._lines[:-_LINES]
