"""numpy's products of float32: square matrices times a vector, and one of them times several rows, with one thread."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.studies.study import Bench
from profiling.machine import openblas
from profiling.machine.caches import cache_or_guess_bytes, free_memory_bytes
from profiling.machine.kernels import numpy_kernel
from profiling.studies.bandwidth import Product, bandwidth_finding
from profiling.studies.finding import Finding
from profiling.trace.clock import Clock, seconds

_WIDTHS = (1024, 2048, 3072, 4096, 5120)  # 4, 16, 36, 64, 100 MiB
_BATCHED, _BATCHES = 4096, (2, 8, 32, 128, 512)
_BEYOND = 3  # sizes beyond the cache at least: a machine with a large one gets larger matrices too
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 60
_FREE_SHARE = 4  # of the free memory, at most one part in so many is taken


def run(bench: Bench) -> Finding:
    cache_bytes = cache_or_guess_bytes()
    widths = _widths(cache_bytes)
    if sum(map(_bytes, widths)) > free_memory_bytes() // _FREE_SHARE:
        raise TurnscopeError(
            f"Matrices of {sum(map(_bytes, widths)) >> 20} MiB in all do not fit into a quarter of the free memory: "
            "end other programs and try again."
        )
    bench.tell("products of matrices and vectors")
    products = list(_measured(bench.clock, widths, Budget(bench.clock, bench.budget_s)))
    try:
        return bandwidth_finding(products, cache_bytes, numpy_kernel())
    except ValueError as error:
        raise TurnscopeError(f"There is no bandwidth, for {error}: end other programs and try again.") from error


def _widths(cache_bytes: int) -> Sequence[int]:
    widths: list[int] = [*_WIDTHS]
    while sum(_bytes(width) > cache_bytes for width in widths) < _BEYOND:
        widths.append(widths[-1] + widths[0])
    return widths


def _bytes(width: int) -> int:
    return 4 * width * width


def _measured(clock: Clock, widths: Sequence[int], budget: Budget) -> Iterator[Product]:
    """All of them once a round, in another order each time; before each it is computed once, so that what fits the
    cache is there."""
    random = np.random.default_rng(0)
    matrices = {width: random.standard_normal((width, width), np.float32) for width in widths}
    kinds = [*((width, 1) for width in widths), *((_BATCHED, rows) for rows in _BATCHES)]
    operands = {kind: random.standard_normal((kind[0], kind[1]), np.float32) for kind in kinds}
    results = {kind: np.empty(kind, np.float32) for kind in kinds}

    def shuffled(_: int, items: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return (items[int(at)] for at in random.permutation(len(items)))

    with openblas.using_threads(1):
        for _, (width, rows) in budget.interleaved(kinds, least=_LEAST_ROUNDS, most=_MOST_ROUNDS, order=shuffled):
            arrays = matrices[width], operands[width, rows], results[width, rows]
            _multiply(*arrays)
            start_ns = clock.now_ns()
            _multiply(*arrays)
            yield Product(_bytes(width), rows, seconds(max(1, clock.now_ns() - start_ns)))


def _multiply(matrix: NDArray[np.float32], operand: NDArray[np.float32], result: NDArray[np.float32]) -> None:
    """One column is multiplied as a vector, by the kernel for those."""
    if operand.shape[1] == 1:
        np.matmul(matrix, operand[:, 0], out=result[:, 0])
    else:
        np.matmul(matrix, operand, out=result)
