"""What this machine has of CUDA: devices, asked of the driver, and the compiler that builds llama.cpp for them."""

import ctypes
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from agent import devices

_USUAL_NVCC = "/usr/local/cuda/bin/nvcc"
_NAME_BYTES = 256
_COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


@dataclass(frozen=True)
class Cuda:
    """The devices, each with its compute capability, and nvcc: where it is and which release; None without one."""

    devices: tuple[str, ...] = ()
    nvcc: str | None = None
    nvcc_release: str | None = None

    @property
    def serves_llama(self) -> bool:
        """Whether llama-cpp-python is to be built for CUDA. What the user's CMAKE_ARGS say of it goes first."""
        return bool(self.devices and self.nvcc) and "GGML_CUDA" not in os.environ.get("CMAKE_ARGS", "")

    def __str__(self) -> str:
        if not self.devices:
            return "No CUDA device: the big engines will run on the CPU, slowly."
        found = f"CUDA device {' and '.join(self.devices)}"
        if self.serves_llama:
            return f"{found}, nvcc {self.nvcc_release}: PyTorch and llama-cpp-python will use it."
        if self.nvcc:
            return f"{found}: PyTorch will use it; llama-cpp-python is built as CMAKE_ARGS says."
        return (
            f"{found}, but no nvcc: PyTorch will use it, llama-cpp-python only the CPU, until the CUDA toolkit is "
            "installed and the same command is run again."
        )


@cache
def find() -> Cuda:
    """Return what there is now. Takes milliseconds without a driver and up to a second with one."""
    names = _device_names()
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or shutil.which(_USUAL_NVCC) if names else None
    return Cuda(names, nvcc, _release(nvcc)) if nvcc else Cuda(names)


def _device_names() -> tuple[str, ...]:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves, as "NVIDIA H200 (9.0)"; none without a working driver."""
    driver, count = devices.open_driver()
    return tuple(_device(driver, number) for number in range(count)) if driver else ()


def _device(driver: ctypes.CDLL, number: int) -> str:
    device, name, version = ctypes.c_int(), ctypes.create_string_buffer(_NAME_BYTES), []
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, _NAME_BYTES, device)
    for attribute in _COMPUTE_CAPABILITY:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        version.append(str(value.value))
    return f"{name.value.decode(errors='replace')} ({'.'.join(version)})"


def _release(nvcc: str) -> str:
    """Return the release that nvcc says it is, like "12.8"; "of unknown release" if it says none."""
    try:
        said = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    except OSError:
        said = ""
    match = re.search(r"release (\S+?),", said)
    return match[1] if match else "of unknown release"
