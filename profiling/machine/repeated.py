"""Rates measured a few times right beside what they are to explain, since a shared machine drifts within seconds."""

import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiling.calibration import CPU
from profiling.trace.clock import NS_PER_S, Clock

LONGEST_S = 0.5  # of one timed multiplication: a slow machine gets fewer rows


@dataclass(frozen=True)
class Probe:
    """How much is read, far beyond any cache; what is multiplied: so many rows with a matrix."""

    read_bytes: int
    matrix: tuple[int, int]
    rows: int


ON_CPU, ON_CUDA = Probe(1 << 30, (4096, 4096), 512), Probe(1 << 32, (8192, 8192), 8192)


def probe_for(device: str) -> Probe:
    """Large enough that the call itself costs nothing beside it."""
    return ON_CPU if device == CPU else ON_CUDA


@dataclass(frozen=True)
class Ceiling:
    """A rate (bytes or floating-point operations per second) as measured several times, `device` and `threads` beside
    it."""

    what: str
    unit: str
    device: str
    threads: int
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def lowest(self) -> float:
        return min(self.values)

    @property
    def highest(self) -> float:
        return max(self.values)

    def with_more(self, later: "Ceiling") -> "Ceiling":
        """The same rate with the values of a later measurement too."""
        return Ceiling(self.what, self.unit, self.device, self.threads, self.values + later.values)


def read_bandwidth(
    clock: Clock, *, device: str = CPU, threads: int = 1, repetitions: int = 5, probe: Probe | None = None
) -> Ceiling:
    """Bytes per second read from memory, and not written: each of the threads looks for the largest byte of its share
    of one array. On a CUDA device PyTorch sums a tensor."""
    size_bytes = (probe or probe_for(device)).read_bytes
    once = _read_on_cuda(device, size_bytes) if device != CPU else _read_on_cpu(threads, size_bytes)
    return Ceiling("read bandwidth", "B/s", device, threads, rates_of(clock, once, size_bytes, repetitions))


def matmul_rate(
    clock: Clock,
    dtype: str,
    *,
    device: str = CPU,
    threads: int = 1,
    repetitions: int = 5,
    probe: Probe | None = None,
    longest_s: float = LONGEST_S,
) -> Ceiling:
    """Floating-point operations per second of PyTorch's linear layer in a dtype (`float32`, `bfloat16`, ...); each of
    the timed multiplications lasts about `longest_s` at most."""
    import torch  # seconds to import, and not part of the default set-up

    torch.set_num_threads(threads)
    probe = probe or probe_for(device)
    kind = getattr(torch, dtype)
    # Random numbers: a GPU that multiplies equal ones needs less power and runs faster.
    weights = torch.rand(*probe.matrix, device=device).sub_(0.5).to(kind)

    def multiply(count: int) -> Callable[[], object]:
        rows = torch.rand(count, probe.matrix[1], device=device).sub_(0.5).to(kind)
        return _synchronised(device, lambda: torch.nn.functional.linear(rows, weights))

    flops_of_row = 2 * prod(probe.matrix)
    with torch.inference_mode():
        few = min(probe.rows, 32)
        (trial,) = rates_of(clock, multiply(few), few * flops_of_row, 1)
        rows = max(1, min(probe.rows, int(longest_s * trial / flops_of_row)))
        rates = rates_of(clock, multiply(rows), rows * flops_of_row, repetitions)
    return Ceiling(f"{dtype} matrix product", "FLOP/s", device, threads, rates)


def rates_of(clock: Clock, once: Callable[[], object], amount: float, repetitions: int) -> tuple[float, ...]:
    """Amount over time, for each repetition; one more goes before them to warm up."""
    once()
    rates: list[float] = []
    for _ in range(repetitions):
        start_ns = clock.now_ns()
        once()
        rates.append(amount * NS_PER_S / max(1, clock.now_ns() - start_ns))
    return tuple(rates)


def _read_on_cpu(threads: int, size_bytes: int) -> Callable[[], object]:
    array = np.ones(size_bytes, np.uint8)
    shares = np.array_split(array, threads)

    def largest(share: NDArray[np.uint8]) -> None:
        share.max()  # numpy lets the other threads run meanwhile

    def read() -> None:
        others = [threading.Thread(target=largest, args=(share,)) for share in shares[1:]]
        for other in others:
            other.start()
        largest(shares[0])
        for other in others:
            other.join()

    return read


def _read_on_cuda(device: str, size_bytes: int) -> Callable[[], object]:
    import torch

    tensor = torch.ones(size_bytes // 4, dtype=torch.float32, device=device)
    return _synchronised(device, tensor.sum)


def _synchronised(device: str, compute: Callable[[], Any]) -> Callable[[], object]:
    """Work on a CUDA device is only queued by the call that asks for it."""
    if device == CPU:
        return compute

    def whole() -> None:
        import torch

        compute()
        torch.cuda.synchronize(device)

    return whole
