"""A system's files in a folder of the test's, and a memory whose speed a test plants."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

MIB = 1 << 20


def written(root: Path, **files: str) -> Path:
    """Files by path, with `__` for the slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}.items():
        (folder / name).write_text(f"{text}\n")


def processors(root: Path, *, user: int = 0, idle: int = 0, steal: int = 0, own: int = 0, load: str = "0.10") -> Path:
    """Ticks of all processors and of this process, whose name holds a bracket and a space."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    (root / "proc/self/stat").write_text(f"7 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 {own} 0 0 0 20 0 1 0\n")
    (root / "proc/loadavg").write_text(f"{load} 0.20 0.30 1/100 99\n")
    return root


class FakeClock:
    """Moves only when it is moved."""

    def __init__(self) -> None:
        self.ns = 0.0

    def now_ns(self) -> int:
        return round(self.ns)

    def wall_ns(self) -> int:
        return 1_800_000_000_000_000_000 + round(self.ns)


class PlantedMemory:
    """Takes `took_s(size_bytes)` to read, disturbed by seeded noise; `read_sizes` tells what was read."""

    device, threads, kernel = "cpu", 1, "planted"

    def __init__(
        self, clock: FakeClock, size_bytes: int, took_s: Callable[[int], float], *, noise: float = 0, seed: int = 0
    ):
        self.size_bytes, self.read_sizes = size_bytes, list[int]()
        self._clock, self._took_s, self._noise = clock, took_s, noise
        self._random = np.random.default_rng(seed)

    @contextmanager
    def ready(self) -> Iterator[None]:
        yield

    def read(self, start_bytes: int, end_bytes: int) -> None:
        size_bytes = end_bytes - start_bytes
        self.read_sizes.append(size_bytes)
        disturbed = 1 + self._noise * self._random.standard_exponential()
        self._clock.ns += 1e9 * self._took_s(size_bytes) * disturbed
