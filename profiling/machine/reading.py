"""Reading memory without writing it, as fast as this machine's libraries can, on the CPU or on a CUDA device."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from profiling.calibration import CPU
from profiling.machine import openblas
from profiling.machine.kernels import numpy_kernel
from profiling.machine.sharing import shared

ROW_BYTES = 8192  # of the matrix that the memory is taken for: the vector beside it stays in the innermost cache
_COLUMNS = ROW_BYTES // 4


class Reader(Protocol):
    """Memory of `size_bytes`, allocated once. `read` reads what lies between two multiples of ROW_BYTES and returns
    when it has been read; it is called inside `ready`."""

    device: str
    threads: int
    size_bytes: int
    kernel: str

    def ready(self) -> AbstractContextManager[None]: ...

    def read(self, start_bytes: int, end_bytes: int) -> None: ...


def reader(device: str, threads: int, size_bytes: int) -> Reader:
    """Raises MemoryError (PyTorch's on a CUDA device) where there is no room."""
    return CpuReader(threads, size_bytes) if device == CPU else CudaReader(device, size_bytes)


class CpuReader:
    """Each thread multiplies its share of a matrix of float32 by a vector, which OpenBLAS does faster than numpy finds
    the largest byte; where OpenBLAS cannot be told to leave the threads to us, it is the largest byte."""

    device = CPU

    def __init__(self, threads: int, size_bytes: int):
        self.threads, self.size_bytes = threads, size_bytes
        self._matrix = np.ones(size_bytes, np.uint8).view(np.float32).reshape(-1, _COLUMNS)
        self._vector = np.ones(_COLUMNS, np.float32)
        self._products = np.empty(len(self._matrix), np.float32)
        self._multiplies = openblas.find() is not None
        how = "matrix-vector product" if self._multiplies else "largest byte"
        self.kernel = f"{numpy_kernel()}, {how}"

    @contextmanager
    def ready(self) -> Generator[None]:
        with openblas.using_threads(1):
            yield

    def read(self, start_bytes: int, end_bytes: int) -> None:
        first, last = start_bytes // ROW_BYTES, end_bytes // ROW_BYTES
        shared(self._read, first, last, self.threads)

    def _read(self, rows: slice) -> None:
        if self._multiplies:
            np.matmul(self._matrix[rows], self._vector, out=self._products[rows])
        else:
            _largest_byte(self._matrix[rows])


class CudaReader:
    """PyTorch sums a tensor of float32."""

    threads = 1

    def __init__(self, device: str, size_bytes: int):
        import torch

        self.device, self.size_bytes = device, size_bytes
        self._tensor = torch.ones(size_bytes // 4, dtype=torch.float32, device=device)
        self.kernel = f"PyTorch {torch.__version__}, sum of float32"

    @contextmanager
    def ready(self) -> Generator[None]:
        import torch

        with torch.inference_mode():
            yield

    def read(self, start_bytes: int, end_bytes: int) -> None:
        import torch

        self._tensor[start_bytes // 4 : end_bytes // 4].sum()
        torch.cuda.synchronize(self.device)


def _largest_byte(rows: NDArray[np.float32]) -> None:
    if rows.size:
        rows.view(np.uint8).max()
