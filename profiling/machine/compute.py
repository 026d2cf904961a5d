"""Floating-point operations per second of matrix products, by number type and library."""

import importlib.util
from collections.abc import Callable

import numpy as np

from profiling.calibration import CPU
from profiling.machine import openblas
from profiling.machine.kernels import numpy_kernel, torch_kernel
from profiling.machine.measured import FLOAT32, FLOPS_PER_S, MeasuredCeiling
from profiling.machine.repeated import ON_CUDA, Probe, matmul_rate
from profiling.machine.sharing import shared
from profiling.trace.clock import Clock, seconds

TORCH_TYPES = (FLOAT32, "bfloat16", "float16")
_TRIAL_ROWS, _MOST_ROWS = 32, 8192


def torch_is_installed() -> bool:
    return importlib.util.find_spec("torch") is not None


def numpy_product(
    clock: Clock, threads: int, *, width: int = 2048, repetitions: int = 7, each_s: float = 0.12
) -> MeasuredCeiling:
    """Rows of float32 times a square matrix; as many rows as take about `each_s`."""
    matrix = np.random.default_rng(0).standard_normal((width, width), np.float32)
    flops_of_row = 2.0 * width * width
    shares = threads if openblas.find() else 1  # another library takes the threads that it wants

    def rate(rows: int) -> float:
        factor = np.ones((rows, width), np.float32)
        result = np.empty((rows, width), np.float32)

        def multiply(share: slice) -> None:
            np.matmul(factor[share], matrix, out=result[share])

        return rows * flops_of_row / _took_s(clock, lambda: shared(multiply, 0, rows, shares))

    with openblas.using_threads(1):
        rate(_TRIAL_ROWS)
        rows = round(each_s * rate(_TRIAL_ROWS) / flops_of_row)
        values = [rate(min(max(rows, _TRIAL_ROWS), _MOST_ROWS)) for _ in range(repetitions)]
    return MeasuredCeiling.of_values(FLOAT32, FLOPS_PER_S, values, kernel=numpy_kernel(), threads=threads)


def torch_product(
    clock: Clock,
    dtype: str,
    *,
    device: str = CPU,
    threads: int = 1,
    width: int = 2048,
    repetitions: int = 7,
    each_s: float = 0.12,
) -> MeasuredCeiling:
    """PyTorch's linear layer; PyTorch must be installed, and keeps its number of threads."""
    import torch

    before = torch.get_num_threads()
    probe = Probe(0, (width, width), _MOST_ROWS // 4) if device == CPU else ON_CUDA
    try:
        found = matmul_rate(
            clock, dtype, device=device, threads=threads, repetitions=repetitions, probe=probe, longest_s=each_s
        )
    finally:
        torch.set_num_threads(before)
    return MeasuredCeiling.of_values(
        dtype, FLOPS_PER_S, found.values, kernel=torch_kernel(dtype, device), device=device, threads=threads
    )


def _took_s(clock: Clock, compute: Callable[[], object]) -> float:
    start_ns = clock.now_ns()
    compute()
    return seconds(max(1, clock.now_ns() - start_ns))
