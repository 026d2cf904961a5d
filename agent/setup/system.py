"""What the operating system must offer beyond Python, found by trying it, and installed where it is missing."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent.setup.steps import SetupError

_APT = Path(__file__).with_name("apt.sh")


class _Part(NamedTuple):
    """What it is in words, the Debian package that has it, and whether it is there."""

    words: str
    package: str
    is_there: Callable[[], bool]


def require(needs_compiler: bool, *, sound: bool = False, tests: bool = False) -> None:
    """Install what is missing: the OpenMP runtime and, if asked, a C++ compiler, what talking through a sound card
    needs, and the sound server and the browser of the tests. Raises SetupError."""
    wanted = [_Part("a C++ compiler", "g++", _compiles_cpp)] if needs_compiler else []
    wanted += [_Part("the GNU OpenMP runtime", "libgomp1", lambda: _loads("libgomp.so.1"))]
    wanted += [*_SOUND] if sound or tests else []
    wanted += [*_TESTS] if tests else []
    missing = [part for part in wanted if not part.is_there()]
    if missing:
        *first, last = (part.words for part in missing)
        what = f"{', '.join(first)} and {last}" if first else last
        if subprocess.run([_APT, what, *(part.package for part in missing)]).returncode != 0:
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


def _has_pulse_plugin() -> bool:
    return any(Path("/usr/lib").glob("**/alsa-lib/libasound_module_pcm_pulse.so"))


def _has_command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


_SOUND = (
    _Part("PortAudio", "libportaudio2", lambda: _loads("libportaudio.so.2")),
    _Part("ALSA's way to the desktop's sound server", "libasound2-plugins", lambda: _has_pulse_plugin()),
)
_TESTS = (
    _Part("PulseAudio", "pulseaudio", _has_command("pulseaudio")),
    _Part("PulseAudio's tools", "pulseaudio-utils", _has_command("pactl")),
    _Part("Chromium", "chromium", _has_command("chromium")),
)
