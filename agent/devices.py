"""Where the big models run: a CUDA device, or the CPU. Standard library only, since set-up asks too."""

import ctypes
import importlib.metadata
import runpy
from contextlib import suppress
from functools import cache
from pathlib import Path

from agent.errors import TurnscopeError

CPU, CUDA = "cpu", "cuda"
DRIVER = "libcuda.so.1"


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
            raise TurnscopeError(_why_torch_does_not_serve())
    return wanted


def numbered(device: str) -> str:
    """As ceilings name it: `cuda` is the first CUDA device."""
    return f"{CUDA}:0" if device == CUDA else device


def number(device: str) -> int | None:
    """N of `cuda:N`; None where the device has no number."""
    digits = device.partition(":")[2]
    return int(digits) if digits else None


@cache
def cuda_devices() -> int:
    """How many CUDA devices the driver sees; asks the driver itself, since importing PyTorch takes seconds."""
    return open_driver()[1]


def open_driver() -> tuple[ctypes.CDLL | None, int]:
    """CUDA's driver, ready for calls, and how many devices it sees of those that CUDA_VISIBLE_DEVICES leaves; None and
    0 without one that works."""
    with suppress(OSError):
        driver, count = ctypes.CDLL(DRIVER), ctypes.c_int()
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return driver, count.value
    return None, 0


def torch_knows_cuda() -> bool:
    """Whether the installed PyTorch is a CUDA build; False when there is none."""
    folder = _torch_folder()
    return folder is not None and is_cuda_build(folder)


def is_cuda_build(torch_folder: Path) -> bool:
    """Whether the PyTorch in a folder was built for CUDA. Reads its version file; importing it would take seconds.
    False when there is none."""
    with suppress(OSError):
        return runpy.run_path(str(torch_folder / "version.py"))["cuda"] is not None
    return False


def _torch_folder() -> Path | None:
    try:
        return Path(str(importlib.metadata.distribution("torch").locate_file("torch")))
    except importlib.metadata.PackageNotFoundError:
        return None


def _why_torch_does_not_serve() -> str:
    if _torch_folder() is None:
        return "PyTorch is not installed: run `make setup-gpu` on this machine, or choose --device cpu."
    return (
        "The installed PyTorch is a build for the CPU: run `make setup-gpu` on this machine (where that changes "
        "nothing, pip's settings offer no other build: see `pip config list`), or choose --device cpu."
    )
