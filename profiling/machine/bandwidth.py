"""Read-only bandwidth: the slope of time over bytes, which neither a call's fixed cost nor a cache can raise."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiling.fit import theil_sen
from profiling.interval import Interval
from profiling.machine.caches import BEYOND, Sizes
from profiling.machine.measured import BYTES_PER_S, MeasuredCeiling
from profiling.machine.reading import Reader
from profiling.roofline import READ
from profiling.trace.clock import Clock, seconds

ROUNDS = 7
_FAR_ABOVE = 1.3  # times the slope's rate: no measurement of memory alone is, for its fixed cost makes it slower


@dataclass(frozen=True)
class Timing:
    """So many bytes, read once."""

    size_bytes: int
    took_s: float

    @property
    def rate(self) -> float:
        return self.size_bytes / self.took_s


def read_over_sizes(
    clock: Clock, reader: Reader, sizes_bytes: Sequence[int], *, rounds: int = ROUNDS, seed: int = 0
) -> list[Timing]:
    """Every size once a round, in another order each time, so that a machine that drifts does so for all sizes; one
    read of all goes before, to warm up."""
    order = np.random.default_rng(seed)
    timings: list[Timing] = []
    with reader.ready():
        reader.read(0, reader.size_bytes)
        for _ in range(rounds):
            for number in order.permutation(len(sizes_bytes)):
                size_bytes = sizes_bytes[int(number)]
                start_ns = clock.now_ns()
                reader.read(0, size_bytes)
                timings.append(Timing(size_bytes, seconds(max(1, clock.now_ns() - start_ns))))
    return timings


def of_slope(timings: Sequence[Timing]) -> Interval | None:
    """Bytes per second from the robust slope of time over bytes, its bounds from the slope's bootstrap; None when the
    time does not grow with the bytes for certain."""
    slope = theil_sen([(float(timing.size_bytes), timing.took_s) for timing in timings]).slope
    if slope.low <= 0:
        return None
    return Interval(value=1 / slope.value, low=1 / slope.high, high=1 / slope.low, n=slope.n)


def bandwidth_ceiling(timings: Sequence[Timing], reader: Reader) -> MeasuredCeiling | None:
    interval = of_slope(timings)
    if interval is None:
        return None
    return MeasuredCeiling(
        name=READ,
        unit=BYTES_PER_S,
        device=reader.device,
        threads=reader.threads,
        values=tuple(timing.rate for timing in timings),
        interval=interval,
        kernel=reader.kernel,
    )


def cache_resident(size_bytes: int, rate: float, cache_bytes: int, slope: Interval | None = None) -> str | None:
    """A sentence when a reading of `rate` bytes per second over `size_bytes` may be the cache's and not the memory's:
    the size is not beyond the cache, or the rate is far above the slope of large sizes."""
    if slope is not None and rate > _FAR_ABOVE * slope.high:
        return (
            f"A read of {_mib(size_bytes)} at {rate / 1e9:.1f} GB/s is far above the {slope.value / 1e9:.1f} GB/s by "
            "which time grows with size: it came from a cache, not from memory."
        )
    if size_bytes <= BEYOND * cache_bytes:
        return (
            f"A read of {_mib(size_bytes)} is not beyond {BEYOND} times the last cache ({_mib(cache_bytes)}): it may "
            "have come from the cache, and then memory is slower than it says."
        )
    return None


def bandwidth_warnings(timings: Sequence[Timing], sizes: Sizes, slope: Interval | None, where: str) -> list[str]:
    """What spoils a regression, each kind said once."""
    said: list[str] = []
    if not sizes.beyond_cache:
        said.append(
            f"On {where} the free memory did not allow reads of {BEYOND} times the last cache "
            f"({_mib(sizes.cache_bytes)}); the smallest was {_mib(sizes.sizes_bytes[0])}, so the bandwidth may be the "
            "cache's."
        )
    if slope is None:
        return [
            *said,
            f"On {where} the time to read memory did not grow with the bytes: there is no bandwidth. Repeat it with "
            "nothing beside it (`turnscope machine --again`).",
        ]
    size_bytes, rate = max(_rates(timings).items(), key=lambda item: item[1])
    resident = cache_resident(size_bytes, rate, 0, slope)
    return [*said, resident] if resident else said


def _rates(timings: Sequence[Timing]) -> dict[int, float]:
    """The median by size."""
    sizes = dict.fromkeys(timing.size_bytes for timing in timings)
    return {size: statistics.median(t.rate for t in timings if t.size_bytes == size) for size in sizes}


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.0f} MiB"
