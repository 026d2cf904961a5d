"""The checkout's virtual environment, .venv: made once, brought up to date when the pinned packages change."""

import hashlib
import re
import sys
from pathlib import Path

from agent.setup import llama_wheel, system
from agent.setup.steps import SetupError, run_step

_HERE = Path(__file__).parent
_VENV = Path(".venv")
_STAMP = _VENV / ".ready"
_LOCK, _DEV_LOCK, _BUILD_LOCK = (
    _HERE / name for name in ("requirements.txt", "requirements-dev.txt", "build-requirements.txt")
)
_NETWORK = "check the network and pip's settings (`pip config list`)"

PYTHON = _VENV / "bin" / "python"


def is_ready(dev: bool) -> bool:
    """Whether .venv holds what the pins ask for, the development tools included if `dev`. Takes milliseconds."""
    key, level = _stamp()
    return key == _key() and (level == "dev" or not dev)


def set_up(dev: bool) -> None:
    """Make .venv, or bring it up to date. One that an interrupted set-up has left is made anew. Raises SetupError."""
    _, level = _stamp()
    dev = dev or level == "dev"
    version = _pinned("llama-cpp-python")
    system.require(needs_compiler=llama_wheel.cached_wheel(version) is None)
    if level is None:
        run_step("Making .venv", [sys.executable, "-m", "venv", "--clear", _VENV], "make room on the disk")
    _STAMP.unlink(missing_ok=True)
    _pip("Installing pip and setuptools", "--upgrade", f"--constraint={_BUILD_LOCK}", "pip", "setuptools")
    if llama_wheel.cached_wheel(version) is None:
        llama_wheel.build_wheel(version, PYTHON)
    wheel = llama_wheel.cached_wheel(version)
    _pip("Installing llama-cpp-python", "--no-deps", "--force-reinstall", str(wheel))
    locks = [f"--requirement={lock}" for lock in ([_LOCK, _DEV_LOCK] if dev else [_LOCK])]
    _pip("Installing Python packages (about a minute)", "--no-deps", f"--build-constraint={_BUILD_LOCK}", *locks)
    _pip("Installing Turnscope", "--no-deps", "--no-build-isolation", "--editable", ".")
    run_step("Checking the packages", [PYTHON, "-m", "pip", "check"], "remove .venv")
    run_step(
        "Loading llama-cpp-python", [PYTHON, "-c", "import llama_cpp"], f"remove {llama_wheel.wheel_folder(version)}"
    )
    _STAMP.write_text(f"{_key()} {'dev' if dev else 'run'}\n", encoding="utf-8")


def _pip(title: str, *arguments: str) -> None:
    command = [PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *arguments]
    run_step(title, command, _NETWORK, progress=r"(?:Collecting|Installing collected packages:) ?([\w.=-]*)")


def _stamp() -> tuple[str, str] | tuple[None, None]:
    """Return the key of the last finished set-up and its level, "run" or "dev"; Nones if there is none that works."""
    if not PYTHON.exists() or not _STAMP.is_file():
        return None, None
    words = _STAMP.read_text(encoding="utf-8").split()
    return (words[0], words[1]) if len(words) == 2 else (None, None)


def _key() -> str:
    """Name all that .venv depends on: the pins, the project's metadata, the processor, and where the checkout lies."""
    files = (Path("pyproject.toml"), _LOCK, _DEV_LOCK, _BUILD_LOCK)
    digest = hashlib.sha256(b"\n".join(file.read_bytes() for file in files))
    digest.update(llama_wheel.wheel_folder(_pinned("llama-cpp-python")).name.encode())
    digest.update(str(Path.cwd()).encode())
    return digest.hexdigest()[:16]


def _pinned(package: str) -> str:
    match = re.search(rf"^{re.escape(package)}==(\S+)", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SetupError(f"{_LOCK} does not pin {package}: restore that file from the repository.")
    return match[1]
