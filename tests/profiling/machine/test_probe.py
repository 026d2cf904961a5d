"""The short look: bounded in time and memory, one allocation, and what it says of itself."""

from pathlib import Path

import numpy as np
import pytest

from profiling.machine import probe as module
from profiling.machine import reading
from profiling.machine.probe import MOST_BYTES, Prober, ProbeReading
from tests.fakes.ticking import TickingClock, never, stop_at
from tests.profiling.machine.fake_system import MIB, FakeClock, PlantedMemory, cache, written

TICK_S = 1e-3
SMALL_BYTES = 16 * MIB


class PlantedProduct:
    flops = 1e9

    def __init__(self, clock: FakeClock, took_s: float):
        self._clock, self._took_s = clock, took_s

    def ready(self):
        return PlantedMemory(self._clock, 0, lambda _: 0).ready()

    def multiply(self) -> None:
        self._clock.ns += 1e9 * self._took_s


def planted(monkeypatch: pytest.MonkeyPatch, clock: FakeClock, rate: float, product_s: float) -> Prober:
    memories: list[PlantedMemory] = []

    def reader(device: str, threads: int, size_bytes: int) -> PlantedMemory:
        memories.append(PlantedMemory(clock, size_bytes, lambda size: size / rate))
        return memories[-1]

    monkeypatch.setattr(module, "reader", reader)
    monkeypatch.setattr(module, "product", lambda device, threads: PlantedProduct(clock, product_s))
    prober = Prober(threads=2)
    assert len(memories) == 1 and memories[0].size_bytes <= MOST_BYTES
    return prober


@pytest.mark.parametrize(("rate", "product_s"), [(20e9, 0.01), (1e9, 0.03), (0.6e9, 0.1), (100e9, 0.0001)])
def test_the_time_holds_on_fast_and_on_slow_machines(
    monkeypatch: pytest.MonkeyPatch, rate: float, product_s: float
) -> None:
    clock = FakeClock()
    prober = planted(monkeypatch, clock, rate, product_s)
    clock.ns = 7e9
    found = prober.read(clock)
    assert found.at_ns == 7_000_000_000 and clock.ns - 7e9 <= 0.5e9
    assert found.took_s == pytest.approx((clock.ns - 7e9) / 1e9)
    read, product = found.rates
    assert (read.name, read.unit, read.threads) == ("read", "B/s", 2)
    assert (product.name, product.unit, product.threads) == ("float32", "FLOP/s", 2)
    assert np.allclose(read.values, rate, rtol=1e-3) and np.allclose(product.values, 1e9 / product_s, rtol=1e-3)


def test_a_short_gap_gets_a_short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    prober = planted(monkeypatch, clock, 20e9, 0.002)
    before = clock.ns
    assert len(prober.read(clock, limit_s=0.05).rates) == 2
    assert clock.ns - before <= 0.05e9


def test_very_many_repetitions_are_kept_as_means_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    prober = planted(monkeypatch, clock, 1e12, 0.01)
    read = prober.read(clock).rates[0]
    assert len(read.values) == 100 and np.allclose(read.values, 1e12, rtol=1e-3)


def test_a_rate_seen_once_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    prober = planted(monkeypatch, clock, 20e9, 0.3)
    assert [rates.name for rates in prober.read(clock).rates] == ["read"]


def test_a_probe_stops_when_it_is_told() -> None:
    prober = Prober(most_bytes=SMALL_BYTES)
    assert prober.read(TickingClock(), should_stop=stop_at(1)).rates == ()
    (read,) = prober.read(TickingClock(), should_stop=stop_at(4)).rates
    assert read.name == "read" and len(read.values) == 3
    assert len(prober.read(TickingClock(), limit_s=0.1, should_stop=never).rates) == 2


def test_nothing_large_is_allocated_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    prober = Prober(most_bytes=SMALL_BYTES, threads=2)

    def refused(*arguments: object, **named: object) -> None:
        raise AssertionError("allocated")

    for name in ("ones", "empty", "zeros"):
        monkeypatch.setattr(reading.np, name, refused)
    assert len(prober.read(TickingClock(), limit_s=0.2).rates) == 2


def test_little_free_memory_makes_a_smaller_probe_that_says_so(tmp_path: Path) -> None:
    cache(tmp_path, 0, 0, 3, "Unified", "32M", "0")
    written(tmp_path, proc__meminfo="MemAvailable:    400000 kB\n")
    found = Prober(root=tmp_path).read(TickingClock(), limit_s=0.02)
    assert len(found.warnings) == 1 and "not beyond" in found.warnings[0]


def test_a_reading_survives_json() -> None:
    found = Prober(most_bytes=SMALL_BYTES).read(TickingClock(), limit_s=0.05)
    assert ProbeReading.model_validate_json(found.model_dump_json()) == found
