"""Where the big models run: a CUDA device, or the CPU."""

import ctypes
import importlib.metadata
from contextlib import suppress
from functools import cache

from agent.errors import TurnscopeError

CPU, CUDA = "cpu", "cuda"


def resolve(wanted: str) -> str:
    """`auto` becomes `cuda` where a device and a PyTorch that can use it are, else `cpu`. Raises TurnscopeError for a
    device that is not there."""
    if wanted == "auto":
        return CUDA if cuda_devices() and torch_knows_cuda() else CPU
    if wanted.startswith(CUDA):
        wanted_number = number(wanted) or 0
        if wanted_number >= cuda_devices():
            there = f"there are {cuda_devices()}" if cuda_devices() else "there is none"
            raise TurnscopeError(
                f"There is no CUDA device {wanted_number} ({there}): choose --device cpu or another number."
            )
        if not torch_knows_cuda():
            raise TurnscopeError(
                "The installed PyTorch is a build for the CPU: run `make setup-gpu` on this machine, or choose "
                "--device cpu."
            )
    return wanted


def number(device: str) -> int | None:
    """N of `cuda:N`; None where the device has no number."""
    digits = device.partition(":")[2]
    return int(digits) if digits else None


@cache
def cuda_devices() -> int:
    """How many CUDA devices the driver sees; asks the driver itself, since importing PyTorch takes seconds."""
    with suppress(OSError):
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def torch_knows_cuda() -> bool:
    """Whether the installed PyTorch is a CUDA build; False when there is none."""
    try:
        return "+cpu" not in importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
