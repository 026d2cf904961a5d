"""llama-cpp-python as a wheel for this machine's processor and GPU, built once and kept in the user's cache."""

import hashlib
import os
import platform
import shutil
from pathlib import Path

from agent.setup.cuda import Cuda
from agent.setup.steps import run_step
from agent.user_cache import cache_folder, exclusive

_HERE = Path(__file__).parent
_WITHOUT_COMMON = _HERE / "llama_without_common.cmake"
_DEFINES = {"GGML_NATIVE": "ON", "LLAVA_BUILD": "OFF"}


def wheel_folder(version: str, cuda: Cuda | None) -> Path:
    """Return where the wheel of llama-cpp-python `version` is kept, built for `cuda` too if given.

    The name covers all that the content depends on: version, processor, C library, our options, the user's CMAKE_ARGS,
    CUDA's release and the devices' kinds. A wheel serves every Python.
    """
    parts = [
        version,
        platform.machine(),
        *platform.libc_ver(),
        _processor_features(),
        repr(_DEFINES),
        _WITHOUT_COMMON.read_text(encoding="utf-8"),
        os.environ.get("CMAKE_ARGS", ""),
    ]
    if cuda:
        parts += [str(cuda.nvcc_release), *sorted(set(cuda.devices))]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache_folder() / "wheels" / f"llama-cpp-python-{version}-{key}"


def wheel_in(folder: Path) -> Path | None:
    """Return the wheel of a `wheel_folder` if it has been built."""
    return next(folder.glob("*.whl"), None)


def build_wheel(version: str, python: Path, cuda: Cuda | None) -> None:
    """Build the wheel with `python`'s pip unless another process has done so meanwhile. Raises SetupError."""
    folder = wheel_folder(version, cuda)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    with exclusive(folder.with_name(f"{folder.name}.lock"), _say_waiting):
        if wheel_in(folder):
            return
        shutil.rmtree(unfinished, ignore_errors=True)
        (unfinished / "wheel").mkdir(parents=True)
        command = [python, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-cache-dir", "--no-input"]
        command += ["--no-binary=llama-cpp-python", f"--build-constraint={_HERE / 'build-requirements.txt'}"]
        defines = _DEFINES | ({"GGML_CUDA": "ON"} if cuda else {})
        command += [f"--config-settings=cmake.define.{name}={value}" for name, value in defines.items()]
        command += [f"--config-settings=cmake.define.CMAKE_PROJECT_INCLUDE={_WITHOUT_COMMON.resolve()}"]
        command += ["--config-settings=ninja.make-fallback=false"]
        command += [f"--wheel-dir={unfinished / 'wheel'}", f"llama-cpp-python=={version}"]
        run_step(
            f"Building llama-cpp-python for this {'GPU (many minutes' if cuda else 'processor (about 2 minutes'} "
            "on 2 cores, once per machine)",
            command,
            "check the network, pip's settings (`pip config list`) and the compiler"
            + (", or set CMAKE_ARGS=-DGGML_CUDA=OFF to do without CUDA" if cuda else ""),
            env=os.environ | {"TMPDIR": str(unfinished)} | ({"CUDACXX": str(cuda.nvcc)} if cuda else {}),
            progress=r"\[(\d+/\d+)\]",
        )
        (unfinished / "wheel").rename(folder)
        shutil.rmtree(unfinished)


def _processor_features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _say_waiting() -> None:
    print("Another set-up is building llama-cpp-python; waiting for it", flush=True)
