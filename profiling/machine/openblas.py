"""numpy's OpenBLAS: which kernels it has chosen for this processor, and with how many threads it computes."""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

_MAPS = Path("/proc/self/maps")
_PREFIXES, _SUFFIXES = ("scipy_openblas_", "openblas_"), ("64_", "", "_64_", "_64")


@dataclass(frozen=True)
class OpenBlas:
    """The loaded library. `affixes` are what its functions' names begin and end with."""

    library: ctypes.CDLL
    affixes: tuple[str, str]

    @property
    def core(self) -> str:
        """The processor family whose kernels it uses, like Haswell or SkylakeX."""
        return self._text("get_corename")

    @property
    def version(self) -> str:
        words = self._text("get_config").split()
        return words[1] if len(words) > 1 else ""

    @property
    def threads(self) -> int:
        return int(self._function("get_num_threads")())

    def set_threads(self, count: int) -> None:
        self._function("set_num_threads")(count)

    def _function(self, name: str) -> Any:
        return self.library[name.join(self.affixes)]

    def _text(self, name: str) -> str:
        function = self._function(name)
        function.restype = ctypes.c_char_p
        said = function()
        return said.decode() if isinstance(said, bytes) else ""


@cache
def find() -> OpenBlas | None:
    """The OpenBLAS that numpy has loaded; None where it uses another library or it cannot be seen which."""
    np.dot(np.ones(1), np.ones(1))  # makes sure that it is loaded
    for path in _loaded():
        with suppress(OSError):
            library = ctypes.CDLL(path)
            for affixes in product(_PREFIXES, _SUFFIXES):
                if hasattr(library, "set_num_threads".join(affixes)):
                    return OpenBlas(library, affixes)
    return None


@contextmanager
def using_threads(count: int) -> Generator[None]:
    """Let numpy's matrix products use so many threads; changes nothing where OpenBLAS is not found."""
    blas = find()
    before = blas.threads if blas else count
    if blas:
        blas.set_threads(count)
    try:
        yield
    finally:
        if blas:
            blas.set_threads(before)


def _loaded() -> list[str]:
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if "openblas" in line.lower()))
