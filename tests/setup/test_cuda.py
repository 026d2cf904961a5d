"""What set-up finds of CUDA: devices through the driver, nvcc, and the one line that says what follows."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import devices
from agent.setup import cuda
from agent.setup.cuda import Cuda
from tests.setup.test_system import add_tool

ROOT = Path(cuda.__file__).parents[2]
NVCC = 'echo "Cuda compilation tools, release 12.8, V12.8.93"'


class Driver:
    """The driver's five functions, as ctypes calls them; it knows two devices. `status` is what cuInit returns."""

    def __init__(self, status: int) -> None:
        self.status = status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = ordinal + 7
        return 0

    def cuDeviceGetName(self, name: Any, size_bytes: int, device: Any) -> int:
        name.value = b"NVIDIA H200" if device.value == 7 else b"NVIDIA L4"
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        value._obj.value = {(75, 7): 9, (76, 7): 0, (75, 8): 8, (76, 8): 9}[attribute, device.value]
        return 0


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder of PATH, empty, on a machine without a CUDA toolkit."""
    for variable in ("CUDACXX", "CMAKE_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cuda, "_USUAL_NVCC", str(tmp_path / "cuda" / "nvcc"))
    monkeypatch.setenv("PATH", str(tmp_path))
    cuda.find.cache_clear()
    yield tmp_path
    cuda.find.cache_clear()


def install_driver(monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver(status))


def test_without_a_driver_there_is_nothing_although_there_is_nvcc(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "DRIVER", "libnone.so.1")
    add_tool(tools, "nvcc", NVCC)
    assert cuda.find() == Cuda()
    assert str(cuda.find()) == "No CUDA device: the big engines will run on the CPU, slowly."


def test_a_driver_without_a_device_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch, status=100)
    assert cuda.find() == Cuda()


def test_devices_and_nvcc_are_found_and_said(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch)
    add_tool(tools, "nvcc", NVCC)
    found = cuda.find()
    assert found == Cuda(("NVIDIA H200 (9.0)", "NVIDIA L4 (8.9)"), str(tools / "nvcc"), "12.8")
    assert found.serves_llama
    assert str(found) == (
        "CUDA device NVIDIA H200 (9.0) and NVIDIA L4 (8.9), nvcc 12.8: PyTorch and llama-cpp-python will use it."
    )


def test_nvcc_is_looked_for_where_the_toolkit_usually_lies(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch)
    (tools / "cuda").mkdir()
    add_tool(tools / "cuda", "nvcc", NVCC)
    assert cuda.find().nvcc == str(tools / "cuda" / "nvcc")
    cuda.find.cache_clear()
    add_tool(tools, "my-nvcc", NVCC)
    monkeypatch.setenv("CUDACXX", str(tools / "my-nvcc"))
    assert cuda.find().nvcc == str(tools / "my-nvcc")


def test_without_nvcc_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch)
    assert not cuda.find().serves_llama
    assert "but no nvcc: PyTorch will use it, llama-cpp-python only the CPU, until the CUDA toolkit" in str(cuda.find())


def test_what_the_user_says_in_cmake_args_goes_first(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch)
    add_tool(tools, "nvcc", NVCC)
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=OFF")
    assert not cuda.find().serves_llama
    assert str(cuda.find()).endswith("llama-cpp-python is built as CMAKE_ARGS says.")


def test_the_device_of_a_run_is_asked_of_the_same_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    install_driver(monkeypatch)
    devices.cuda_devices.cache_clear()
    try:
        assert devices.cuda_devices() == len(cuda.find().devices) == 2
    finally:
        devices.cuda_devices.cache_clear()


def test_set_up_needs_the_standard_library_alone() -> None:
    """It runs before anything is installed."""
    asked = "import sys; import agent.setup.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {asked}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) - sys.stdlib_module_names <= {"agent", "__main__"}
