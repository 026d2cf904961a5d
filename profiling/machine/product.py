"""One small matrix product of float32, allocated once, for the probe."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np

from profiling.calibration import CPU
from profiling.machine import openblas
from profiling.machine.sharing import shared

_WIDTH, _ROWS = 1024, 256
_CUDA_WIDTH = 2048  # a GPU multiplies smaller ones in less time than it takes to start
PRODUCT_BYTES = 4 * _WIDTH * (_WIDTH + 2 * _ROWS)


def product(device: str, threads: int) -> "Product":
    return CpuProduct(threads) if device == CPU else CudaProduct(device)


class Product(Protocol):
    """`multiply` takes `flops` operations and returns when they are done; it is called inside `ready`."""

    flops: float

    def ready(self) -> AbstractContextManager[None]: ...

    def multiply(self) -> None: ...


class CpuProduct:
    flops = 2.0 * _ROWS * _WIDTH * _WIDTH

    def __init__(self, threads: int):
        random = np.random.default_rng(0)
        self._threads = threads if openblas.find() else 1
        self._matrix = random.standard_normal((_WIDTH, _WIDTH), np.float32)
        self._rows = random.standard_normal((_ROWS, _WIDTH), np.float32)
        self._result = np.empty((_ROWS, _WIDTH), np.float32)

    def ready(self) -> AbstractContextManager[None]:
        return openblas.using_threads(1)

    def multiply(self) -> None:
        shared(self._multiply, 0, _ROWS, self._threads)

    def _multiply(self, rows: slice) -> None:
        np.matmul(self._rows[rows], self._matrix, out=self._result[rows])


class CudaProduct:
    def __init__(self, device: str):
        import torch

        self._device, self.flops = device, 2.0 * _CUDA_WIDTH**3
        self._matrix = torch.rand(_CUDA_WIDTH, _CUDA_WIDTH, device=device).sub_(0.5)

    def ready(self) -> AbstractContextManager[None]:
        return nullcontext()

    def multiply(self) -> None:
        import torch

        torch.nn.functional.linear(self._matrix, self._matrix)
        torch.cuda.synchronize(self._device)
