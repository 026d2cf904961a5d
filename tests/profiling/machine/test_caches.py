"""Caches, free memory, and the sizes that follow from them."""

from pathlib import Path

import pytest

from profiling.machine.caches import (
    cache_or_guess_bytes,
    free_memory_bytes,
    last_level_cache_bytes,
    sizes_for,
)
from profiling.machine.reading import ROW_BYTES
from tests.profiling.machine.fake_system import MIB, cache, written


def test_last_caches_of_the_usable_processors_are_added_once_each(tmp_path: Path) -> None:
    for cpu, group in enumerate(("0-1", "0-1", "2-3", "2-3")):
        cache(tmp_path, cpu, 0, 1, "Instruction", "32K", str(cpu))
        cache(tmp_path, cpu, 1, 2, "Unified", "512K", str(cpu))
        cache(tmp_path, cpu, 2, 3, "Unified", "32768K", group)
    assert last_level_cache_bytes(tmp_path, frozenset(range(4))) == 64 * MIB
    assert last_level_cache_bytes(tmp_path, frozenset({0, 1})) == 32 * MIB


def test_a_system_that_tells_nothing_has_no_cache_and_a_guess(tmp_path: Path) -> None:
    assert last_level_cache_bytes(tmp_path) is None
    assert cache_or_guess_bytes(tmp_path) == 32 * MIB
    assert free_memory_bytes(tmp_path) == 2 << 30


def test_damaged_cache_files_are_passed_over(tmp_path: Path) -> None:
    cache(tmp_path, 0, 0, 3, "Unified", "large", "0")
    cache(tmp_path, 0, 1, 2, "Unified", "1M", "0")
    assert last_level_cache_bytes(tmp_path, frozenset({0})) == MIB


def test_a_control_group_limits_the_free_memory(tmp_path: Path) -> None:
    written(tmp_path, proc__meminfo="MemTotal: 9000000 kB\nMemAvailable:    8000000 kB\n")
    assert free_memory_bytes(tmp_path) == 8_000_000 << 10
    group = {"max": "1000000", "current": "700000", "stat": "anon 1\ninactive_file 100000\n"}
    written(tmp_path, **{f"sys__fs__cgroup__memory.{name}": text for name, text in group.items()})
    assert free_memory_bytes(tmp_path) == 400_000
    written(tmp_path, **{"sys__fs__cgroup__memory.max": "max\n"})
    assert free_memory_bytes(tmp_path) == 8_000_000 << 10


@pytest.mark.parametrize(("cache_mib", "free_mib", "beyond"), [(32, 8192, True), (1, 8192, True), (256, 16384, True),
                                                               (512, 4096, False), (32, 100, False)])  # fmt: skip
def test_six_sizes_over_four_times_the_cache_where_memory_allows(cache_mib: int, free_mib: int, beyond: bool) -> None:
    sizes = sizes_for(cache_mib * MIB, free_mib * MIB, unit_bytes=ROW_BYTES)
    assert len(set(sizes.sizes_bytes)) == 6 and list(sizes.sizes_bytes) == sorted(sizes.sizes_bytes)
    assert all(size % ROW_BYTES == 0 for size in sizes.sizes_bytes)
    assert sizes.sizes_bytes[-1] <= free_mib * MIB / 4 + ROW_BYTES
    assert sizes.sizes_bytes[-1] >= 2.4 * sizes.sizes_bytes[0]
    assert sizes.beyond_cache is beyond
    assert (sizes.sizes_bytes[0] > 4 * cache_mib * MIB) is beyond


def test_next_to_no_memory_still_gives_six_sizes() -> None:
    assert len(set(sizes_for(32 * MIB, 0, unit_bytes=ROW_BYTES).sizes_bytes)) == 6
