"""The times of sound that leaves in frames of 20 ms, all samples of a frame at once, as over RTP."""

from bisect import bisect_right

from profiling.trace.clock import NS_PER_S

FRAMES_PER_S = 50
FRAME_NS = NS_PER_S // FRAMES_PER_S


class FrameClock:
    """`SampleTimes` of a sender: frame n holds the samples `n * rate_hz / 50` to `(n + 1) * rate_hz / 50`, and leaves
    20 ms after the one before it. A sender that stalled says so: it goes on where it stopped, and nothing is lost."""

    def __init__(self, origin_ns: int, rate_hz: int):
        self.rate_hz = rate_hz
        self._frames = [0]  # from this frame on ...
        self._starts_ns = [origin_ns]  # ... counted from here

    def ns_of(self, sample: int) -> int:
        """When the frame with this sample leaves (monotonic ns)."""
        return self.leaves_ns(sample * FRAMES_PER_S // self.rate_hz)

    def sample_at(self, ns: int) -> int:
        """The first sample of the first frame that leaves at or after the given time."""
        return self.first_sample(self.frame_at(ns))

    def leaves_ns(self, frame: int) -> int:
        place = max(0, bisect_right(self._frames, frame) - 1)
        return self._starts_ns[place] + (frame - self._frames[place]) * FRAME_NS

    def frame_at(self, ns: int) -> int:
        """The first frame that leaves at or after the given time."""
        place = max(0, bisect_right(self._starts_ns, ns) - 1)
        frame = self._frames[place] - (self._starts_ns[place] - ns) // FRAME_NS
        return min([frame, *self._frames[place + 1 : place + 2]])

    def first_sample(self, frame: int) -> int:
        return -(-frame * self.rate_hz // FRAMES_PER_S)

    def stalled(self, frame: int, frames: int) -> None:
        """This frame, which has not left, leaves so many frames later, and with it all that follow."""
        later_ns = self.leaves_ns(frame) + frames * FRAME_NS
        self._frames.append(frame)
        self._starts_ns.append(later_ns)
