"""The bandwidth study with small matrices."""

import pytest

from agent.errors import TurnscopeError
from agent.experiments.studies import bandwidth
from agent.experiments.studies.study import Bench
from agent.settings import Settings
from profiling.trace.clock import SystemClock

KIB = 1 << 10


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(bandwidth, "_WIDTHS", (256, 512, 768, 1024, 1280))
    monkeypatch.setattr(bandwidth, "_BATCHED", 1024)
    monkeypatch.setattr(bandwidth, "_BATCHES", (2, 16))
    monkeypatch.setattr(bandwidth, "cache_or_guess_bytes", lambda: 300 * KIB)
    return Bench(Settings(), SystemClock(), str, 0.3)


def test_every_size_and_batch_is_measured(bench: Bench) -> None:
    finding = bandwidth.run(bench)
    names = [row[0] for row in finding.rows]
    assert names[1:5] == ["1 MiB, 1 row", "2 MiB, 1 row", "4 MiB, 1 row", "6 MiB, 1 row"]
    assert names[5:] == ["4 MiB, 2 rows", "4 MiB, 16 rows"]
    assert min(int(row[-1]) for row in finding.rows) >= 3


def test_a_large_cache_gets_larger_matrices(bench: Bench) -> None:
    assert bandwidth._widths(5 << 20) == [256, 512, 768, 1024, 1280, 1536, 1792]


def test_without_memory_it_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "free_memory_bytes", lambda: 1 << 20)
    with pytest.raises(TurnscopeError, match="do not fit into a quarter of the free memory"):
        bandwidth.run(bench)
