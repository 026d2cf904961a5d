"""What the operating system must offer beyond Python, found by trying it, and installed where it is missing."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

from agent.setup.steps import SetupError

_APT = Path(__file__).with_name("apt.sh")


def require(needs_compiler: bool) -> None:
    """Install what is missing: the OpenMP runtime and, if asked, a C++ compiler. Raises SetupError."""
    missing = []
    if needs_compiler and not _compiles_cpp():
        missing.append(("a C++ compiler", "g++"))
    if not _loads("libgomp.so.1"):
        missing.append(("the GNU OpenMP runtime", "libgomp1"))
    if missing:
        what = " and ".join(words for words, _ in missing)
        if subprocess.run([_APT, what, *(package for _, package in missing)]).returncode != 0:
            raise SetupError(f"Set-up stopped for want of {what}.")


def _compiles_cpp() -> bool:
    compilers = filter(None, (os.environ.get("CXX"), shutil.which("c++"), shutil.which("g++"), shutil.which("clang++")))
    compiler = next(compilers, None)
    source = b"#include <vector>\nint main() { return 0; }\n"
    return compiler is not None and (
        subprocess.run([compiler, "-x", "c++", "-fsyntax-only", "-"], input=source, capture_output=True).returncode == 0
    )


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
