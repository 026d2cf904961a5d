"""The tie between sample numbers and monotonic time at an edge, and the packets that cross it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from profiling.trace.clock import NS_PER_S

CAPTURE_RATE_HZ = 16_000


class SampleTimes(Protocol):
    """When each sample crosses an edge, on the monotonic clock of `profiling.trace.clock`. A device's times may correct
    themselves as it runs, in small steps and never backwards."""

    @property
    def rate_hz(self) -> int: ...

    def ns_of(self, sample: int) -> int:
        """When the sample of this number crosses the edge (monotonic ns)."""
        ...

    def sample_at(self, ns: int) -> int:
        """The first sample that crosses at or after the given time."""
        ...


@dataclass(frozen=True)
class SampleClock:
    """The `SampleTimes` of an ideal edge: sample 0 crossed it at `origin_ns`, and one follows the other at
    `rate_hz`."""

    origin_ns: int
    rate_hz: int

    def ns_of(self, sample: int) -> int:
        """When the sample of this number crosses the edge (monotonic ns)."""
        return self.origin_ns + sample * NS_PER_S // self.rate_hz

    def sample_at(self, ns: int) -> int:
        """The first sample that crosses at or after the given time."""
        return -((self.origin_ns - ns) * self.rate_hz // NS_PER_S)


@dataclass(frozen=True)
class Packet:
    """Captured audio: float32 (n,) mono at 16 kHz, `start_sample` on the capture's sample clock."""

    start_sample: int
    samples: NDArray[np.float32]

    @property
    def end_sample(self) -> int:
        return self.start_sample + len(self.samples)
