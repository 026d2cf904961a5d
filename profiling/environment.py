"""What a run was made with and on: library versions and the machine's name tags."""

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict

LIBRARIES = (
    "turnscope",
    "llama-cpp-python",
    "numpy",
    "onnxruntime",
    "opentelemetry-sdk",
    "piper-tts",
    "soundfile",
    "soxr",
)
BIG_LIBRARIES = ("torch", "nemo-toolkit", "voxcpm", "transformers")


class Machine(BaseModel):
    """`usable_cores` are those that this process may run on."""

    model_config = ConfigDict(frozen=True)

    platform: str
    cpu: str
    cores: int
    usable_cores: int

    @classmethod
    def this(cls) -> "Machine":
        cores = os.cpu_count() or 1
        usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else cores
        return cls(platform=platform.platform(), cpu=cpu_model(), cores=cores, usable_cores=usable)


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of those libraries that are installed."""
    versions = {"python": platform.python_version()}
    for library in libraries:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions


def cpu_model() -> str:
    """The processor's name as the system gives it, or its architecture."""
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
