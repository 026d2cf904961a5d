"""A look at the machine that is short enough for before, after and the idle gaps of a run."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from profiling.calibration import CPU, Rates
from profiling.machine import cuda
from profiling.machine.bandwidth import cache_resident
from profiling.machine.caches import cache_or_guess_bytes, free_memory_bytes
from profiling.machine.kernels import ROOT
from profiling.machine.measured import BYTES_PER_S, FLOAT32, FLOPS_PER_S
from profiling.machine.product import PRODUCT_BYTES, product
from profiling.machine.reading import ROW_BYTES, reader
from profiling.roofline import READ
from profiling.trace.clock import Clock, seconds

LONGEST_S = 0.5
MOST_BYTES = 240_000_000  # OpenBLAS's own buffers, some 5 MB, are beside it: below 256 MB in all
_PIECES = 6  # that the CPU's memory is read in, one after another: each has left the cache when its turn comes again
_MOST_VALUES = 100  # that are kept of a rate
_FREE_SHARE = 8  # of the free memory, at most one part in so many is taken
_LEAST_VALUES = 2
_MARGIN = 1.25  # the longest piece so far, times this, must still fit

ShouldStop = Callable[[], bool]


class ProbeReading(BaseModel):
    """What a probe saw from `at_ns` on, on the run's clock, in `took_s`. `warnings` are sentences."""

    model_config = ConfigDict(frozen=True)

    at_ns: int
    took_s: float
    rates: tuple[Rates, ...]
    warnings: tuple[str, ...] = ()


class Prober:
    """Allocates once, at most 240 MB and an eighth of the free memory; each `read` takes at most 0.5 s.

    `threads` are those that the run's engines use. On a CUDA device PyTorch reads and multiplies.
    """

    def __init__(self, *, threads: int = 1, device: str = CPU, most_bytes: int = MOST_BYTES, root: Path = ROOT) -> None:
        self._device, self._threads = device, threads
        free = free_memory_bytes(root) // _FREE_SHARE if device == CPU else most_bytes
        self._pieces = _PIECES if device == CPU else 1  # a GPU would read a piece in less time than it takes to start
        piece = max(1, (min(most_bytes, free) - PRODUCT_BYTES) // self._pieces // ROW_BYTES) * ROW_BYTES
        self._piece_bytes = piece
        self._reader = reader(device, threads, piece * self._pieces)
        self._product = product(device, threads)
        self._cache_bytes = cache_or_guess_bytes(root) if device == CPU else cuda.l2_cache_bytes(device)
        self._piece = 0
        with self._reader.ready(), self._product.ready():  # the first of each is slower
            self._read_piece()
            self._product.multiply()

    def read(self, clock: Clock, *, limit_s: float = LONGEST_S, should_stop: ShouldStop | None = None) -> ProbeReading:
        """Half of the time for each of the two rates; `should_stop` ends it early, between two pieces of a few
        milliseconds, and leaves out a rate with fewer than two values."""
        start_ns = clock.now_ns()
        stop = should_stop or (lambda: False)
        with self._reader.ready():
            bandwidth = _timed(clock, self._read_piece, self._piece_bytes, limit_s / 2, stop)
        left_s = limit_s - seconds(clock.now_ns() - start_ns)
        with self._product.ready():
            flops = _timed(clock, self._product.multiply, self._product.flops, left_s, stop)
        rates = [self._rates(READ, BYTES_PER_S, bandwidth), self._rates(FLOAT32, FLOPS_PER_S, flops)]
        return ProbeReading(
            at_ns=start_ns,
            took_s=seconds(clock.now_ns() - start_ns),
            rates=tuple(rate for rate in rates if len(rate.values) >= _LEAST_VALUES),
            warnings=self._warnings(bandwidth),
        )

    def _read_piece(self) -> None:
        start = self._piece * self._piece_bytes
        self._reader.read(start, start + self._piece_bytes)
        self._piece = (self._piece + 1) % self._pieces

    def _rates(self, name: str, unit: str, values: list[float]) -> Rates:
        return Rates(name=name, unit=unit, device=self._device, threads=self._threads, values=tuple(values))

    def _warnings(self, bandwidth: list[float]) -> tuple[str, ...]:
        if not bandwidth:
            return ()
        sentence = cache_resident(self._reader.size_bytes, max(bandwidth), self._cache_bytes)
        return (sentence,) if sentence else ()


def _timed(
    clock: Clock, once: Callable[[], object], amount: float, limit_s: float, should_stop: ShouldStop
) -> list[float]:
    """Rates of as many repetitions as the time allows, judged by the longest of them; of very many, the means of some
    in a row each."""
    times_s: list[float] = []
    begin_ns, longest_s = clock.now_ns(), 0.0
    while not should_stop() and seconds(clock.now_ns() - begin_ns) + _MARGIN * longest_s < limit_s:
        start_ns = clock.now_ns()
        once()
        times_s.append(seconds(max(1, clock.now_ns() - start_ns)))
        longest_s = max(longest_s, times_s[-1])
    groups = np.array_split(times_s, min(len(times_s), _MOST_VALUES)) if times_s else []
    return [amount * len(group) / float(group.sum()) for group in groups]
