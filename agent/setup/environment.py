"""The checkout's virtual environment, .venv: made once, brought up to date when the pinned packages change.

It has one of three levels, each with all of the one before: "run" for the default pipeline, "gpu" for the big engines
too, "dev" for checks and tests, which need both.
"""

import hashlib
import re
import sys
from pathlib import Path
from typing import Literal, get_args

from agent.setup import cuda, llama_wheel, system, torch_build
from agent.setup.steps import SetupError, run_step

Level = Literal["run", "gpu", "dev"]
LEVELS: tuple[Level, ...] = get_args(Level)

_HERE = Path(__file__).parent
_VENV = Path(".venv")
_STAMP = _VENV / ".ready"
_LOCK, _GPU_LOCK, _DEV_LOCK, _BUILD_LOCK = (
    _HERE / f"{name}.txt" for name in ("requirements", "requirements-gpu", "requirements-dev", "build-requirements")
)
_LOCKS = {"run": (_LOCK,), "gpu": (_LOCK, _GPU_LOCK), "dev": (_LOCK, _GPU_LOCK, _DEV_LOCK)}
_NETWORK = "check the network and pip's settings (`pip config list`)"

PYTHON = _VENV / "bin" / "python"


def is_ready(level: Level) -> bool:
    """Whether .venv holds what the pins ask for at `level`. Takes milliseconds, and a moment more to ask for CUDA."""
    key, present = _stamp()
    return present is not None and LEVELS.index(present) >= LEVELS.index(level) and key == _key(present)


def set_up(level: Level) -> None:
    """Make .venv, or bring it up to date; a level that it had stays. One that an interrupted set-up has left is made
    anew. Raises SetupError.
    """
    _, present = _stamp()
    level = LEVELS[max(LEVELS.index(level), LEVELS.index(present or "run"))]
    if level != "run":
        print(cuda.find(), flush=True)
    version = _pinned("llama-cpp-python", _LOCK)
    wheel_folder = llama_wheel.wheel_folder(version, _llama_cuda(level))
    system.require(llama_wheel.wheel_in(wheel_folder) is None, tests=level == "dev")
    if present is None:
        run_step("Making .venv", [sys.executable, "-m", "venv", "--clear", _VENV], "make room on the disk")
    _STAMP.unlink(missing_ok=True)
    _pip("Installing pip and setuptools", "--upgrade", f"--constraint={_BUILD_LOCK}", "pip", "setuptools")
    if llama_wheel.wheel_in(wheel_folder) is None:
        llama_wheel.build_wheel(version, PYTHON, _llama_cuda(level))
    wheel = llama_wheel.wheel_in(wheel_folder)
    _pip("Installing llama-cpp-python", "--no-deps", "--force-reinstall", str(wheel))
    if level != "run":
        _install_torch()
    _pip(
        f"Installing Python packages (about {'a minute' if level == 'run' else 'two minutes'})",
        "--no-deps",
        f"--build-constraint={_BUILD_LOCK}",
        *(f"--requirement={lock}" for lock in _LOCKS[level]),
    )
    if level != "run":
        torch_build.fit_torchaudio(_site_packages())
    _pip("Installing Turnscope", "--no-deps", "--no-build-isolation", "--editable", ".")
    run_step("Checking the packages", [PYTHON, "-m", "agent.setup.check_packages"], "remove .venv")
    run_step("Loading llama-cpp-python", [PYTHON, "-c", "import llama_cpp"], f"remove {wheel_folder}")
    _STAMP.write_text(f"{_key(level)} {level}\n", encoding="utf-8")


def _install_torch() -> None:
    """Let pip choose the build of PyTorch, CUDA's libraries with it where it needs them. Where there is a device,
    a build for the CPU, and torchaudio as it was made to fit, are fetched anew: pip takes any build of a release for
    the same."""
    constraints = [f"--constraint={lock}" for lock in (_LOCK, _GPU_LOCK, _BUILD_LOCK)]
    torch, torchaudio = (f"{name}=={_pinned(name, _GPU_LOCK)}" for name in ("torch", "torchaudio"))
    if cuda.find().devices and torch_build.is_for_cpu(_site_packages()):
        _pip("Fetching PyTorch for the CUDA device", "--force-reinstall", "--no-deps", torch, torchaudio)
    _pip("Installing PyTorch", *constraints, torch)
    if cuda.find().devices and not torch_build.has_cuda(_site_packages()):
        print("PyTorch came as a build without CUDA, which pip's settings offer: it will run on the CPU.", flush=True)


def _pip(title: str, *arguments: str) -> None:
    command = [PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *arguments]
    run_step(title, command, _NETWORK, progress=r"(?:Collecting|Installing collected packages:) ?([\w.=-]*)")


def _site_packages() -> Path:
    return next((_VENV / "lib").glob("python*/site-packages"))


def _llama_cuda(level: Level) -> cuda.Cuda | None:
    """Return what llama-cpp-python is built for beside the processor, None if nothing."""
    return cuda.find() if level != "run" and cuda.find().serves_llama else None


def _stamp() -> tuple[str, Level] | tuple[None, None]:
    """Return the key of the last finished set-up and its level; Nones if there is none that works."""
    if not PYTHON.exists() or not _STAMP.is_file():
        return None, None
    match _STAMP.read_text(encoding="utf-8").split():
        case [key, ("run" | "gpu" | "dev") as level]:
            return key, level
    return None, None


def _key(level: Level) -> str:
    """Name all that .venv depends on: the pins, the project's metadata, the processor and GPU, and where it lies."""
    files = (Path("pyproject.toml"), *_LOCKS["dev"], _BUILD_LOCK)
    digest = hashlib.sha256(b"\n".join(file.read_bytes() for file in files))
    digest.update(llama_wheel.wheel_folder(_pinned("llama-cpp-python", _LOCK), _llama_cuda(level)).name.encode())
    if level != "run" and cuda.find().devices:
        digest.update(b"PyTorch for CUDA")
    digest.update(str(Path.cwd()).encode())
    return digest.hexdigest()[:16]


def _pinned(package: str, lock: Path) -> str:
    match = re.search(rf"^{re.escape(package)}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SetupError(f"{lock} does not pin {package}: restore that file from the repository.")
    return match[1]
