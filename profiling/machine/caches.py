"""How large this machine's last cache and its free memory are, and which sizes a bandwidth is therefore measured at."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from profiling.machine.kernels import ROOT

BEYOND = 4  # a read of fewer times the last cache may be answered by the cache
NUMBER_OF_SIZES = 6
_MARGIN = 1.0625  # of the smallest size over BEYOND times the cache
_LARGEST_OVER_SMALLEST = 2.5
_SMALLEST_BYTES, _LARGEST_BYTES = 64 << 20, 512 << 20  # where cache and memory leave the choice
_USABLE_SHARE = 4  # of the free memory, one part in so many
_UNKNOWN_CACHE_BYTES, _UNKNOWN_FREE_BYTES = 32 << 20, 2 << 30
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Sizes:
    """What is read, in bytes, smallest first, and the cache that it should exceed."""

    sizes_bytes: tuple[int, ...]
    cache_bytes: int

    @property
    def beyond_cache(self) -> bool:
        return self.sizes_bytes[0] > BEYOND * self.cache_bytes


def sizes_for(cache_bytes: int, free_bytes: int, *, unit_bytes: int, smallest_bytes: int = _SMALLEST_BYTES) -> Sizes:
    """Six multiples of `unit_bytes`, evenly apart, over four times the cache where a quarter of the free memory
    allows."""
    smallest = max(BEYOND * _MARGIN * cache_bytes, smallest_bytes)
    largest = min(max(_LARGEST_OVER_SMALLEST * smallest, _LARGEST_BYTES), free_bytes / _USABLE_SHARE)
    smallest = min(smallest, largest / _LARGEST_OVER_SMALLEST)
    step = (largest - smallest) / (NUMBER_OF_SIZES - 1)
    units = [max(1, round((smallest + number * step) / unit_bytes)) for number in range(NUMBER_OF_SIZES)]
    apart = [unit + number if len(set(units)) < NUMBER_OF_SIZES else unit for number, unit in enumerate(units)]
    return Sizes(tuple(unit * unit_bytes for unit in apart), cache_bytes)


def last_level_cache_bytes(root: Path = ROOT, cpus: frozenset[int] | None = None) -> int | None:
    """The last caches of the processors that this process may use, together; None where the system does not tell.

    Processors under one cache count it once. Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    found: dict[tuple[int, str], int] = {}
    for cpu in sorted(cpus or _usable_cpus()):
        for level, shared, size_bytes in _caches(root / f"sys/devices/system/cpu/cpu{cpu}/cache"):
            found[level, shared] = size_bytes
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last) or None


def cache_or_guess_bytes(root: Path = ROOT) -> int:
    """The last cache, or 32 MiB where the system does not tell."""
    return last_level_cache_bytes(root) or _UNKNOWN_CACHE_BYTES


def free_memory_bytes(root: Path = ROOT) -> int:
    """What can be allocated without swapping, within the limit of the control group; 2 GiB where it is not told."""
    told = [free for free in (_of_meminfo(root), _of_control_group(root)) if free is not None]
    return min(told, default=_UNKNOWN_FREE_BYTES)


def _usable_cpus() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if sys.platform == "linux" else frozenset(range(os.cpu_count() or 1))


def _caches(folder: Path) -> Iterator[tuple[int, str, int]]:
    """Level, the processors that share it, and size of each cache that holds data."""
    for index in sorted(folder.glob("index*")):
        with suppress(OSError, ValueError):
            told = {name: (index / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size")}
            shared = (index / "shared_cpu_list").read_text(encoding="ascii").strip()
            size = re.fullmatch(r"(\d+)([KMG]?)", told["size"])
            if size and told["type"] != "Instruction":
                yield int(told["level"]), shared, int(size[1]) * _FACTOR[size[2]]


def _of_meminfo(root: Path) -> int | None:
    with suppress(OSError):
        found = re.search(r"^MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text(encoding="ascii"), re.M)
        return int(found[1]) << 10 if found else None
    return None


def _of_control_group(root: Path) -> int | None:
    group = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        files = re.search(r"^inactive_file (\d+)$", (group / "memory.stat").read_text(encoding="ascii"), re.M)
        return max(0, limit - used + (int(files[1]) if files else 0))
    return None
