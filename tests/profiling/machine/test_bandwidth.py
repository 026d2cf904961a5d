"""Bandwidth from the slope of time over bytes: planted rates are found, what spoils them is said."""

import pytest

from profiling.interval import Interval
from profiling.machine.bandwidth import (
    bandwidth_ceiling,
    bandwidth_warnings,
    cache_resident,
    of_slope,
    read_over_sizes,
)
from profiling.machine.caches import Sizes
from tests.profiling.machine.fake_system import MIB, FakeClock, PlantedMemory

SIZES = tuple(size * MIB for size in (136, 211, 286, 361, 436, 512))
RATE = 25.7e9


def timings(took_s, *, noise: float = 0.0, seed: int = 0, rounds: int = 4):
    clock = FakeClock()
    memory = PlantedMemory(clock, SIZES[-1], took_s, noise=noise, seed=seed)
    return read_over_sizes(clock, memory, SIZES, rounds=rounds, seed=seed), memory


def test_a_planted_rate_is_found_whatever_the_call_costs() -> None:
    found, memory = timings(lambda size: 0.004 + size / RATE)
    interval = of_slope(found)
    assert interval and interval.value == pytest.approx(RATE, rel=1e-6) and interval.n == len(found) == 24
    ceiling = bandwidth_ceiling(found, memory)
    assert ceiling and (ceiling.name, ceiling.unit, ceiling.device, ceiling.threads) == ("read", "B/s", "cpu", 1)
    assert max(ceiling.values) < ceiling.interval.value  # each single reading is slowed by the call
    assert bandwidth_warnings(found, Sizes(SIZES, 32 * MIB), interval, "here") == []


def test_every_size_is_read_once_a_round_in_changing_order() -> None:
    _, memory = timings(lambda size: size / RATE, rounds=3)
    assert memory.read_sizes[0] == SIZES[-1]  # to warm up
    rounds = [memory.read_sizes[1 + 6 * number : 7 + 6 * number] for number in range(3)]
    assert all(sorted(read) == list(SIZES) for read in rounds)
    assert len({tuple(read) for read in rounds}) == 3


def test_the_interval_holds_the_planted_rate_under_noise() -> None:
    held = 0
    for seed in range(10):
        found, _ = timings(lambda size: 0.001 + size / RATE, noise=0.02, seed=seed)
        interval = of_slope(found)
        assert interval is not None
        held += interval.low <= RATE * 1.02 and interval.high >= RATE * 0.96
        assert interval.half_width < 0.2
    assert held == 10


def test_one_disturbed_reading_moves_nothing() -> None:
    found, _ = timings(lambda size: size / RATE)
    disturbed = [*found[:-1], type(found[-1])(found[-1].size_bytes, 10 * found[-1].took_s)]
    interval = of_slope(disturbed)
    assert interval and interval.value == pytest.approx(RATE, rel=1e-6)


def test_a_machine_that_drifts_has_a_wide_interval() -> None:
    quiet, _ = timings(lambda size: size / RATE, noise=0.02)
    half, _ = timings(lambda size: size / (RATE / 2), noise=0.02)
    before, after = of_slope(quiet), of_slope([*quiet[:12], *half[12:]])
    assert before and after and after.half_width > 2 * before.half_width


def test_sizes_that_a_cache_answers_are_recognised() -> None:
    cached = 300 * MIB  # a cache that the system has not told of
    found, _ = timings(lambda size: size / (5 * RATE) if size < cached else (size - cached) / RATE + size / (5 * RATE))
    (sentence,) = bandwidth_warnings(found, Sizes(SIZES, 32 * MIB), of_slope(found), "one thread")
    assert "far above" in sentence and "from a cache" in sentence


def test_too_little_memory_for_sizes_beyond_the_cache_is_said() -> None:
    found, _ = timings(lambda size: size / RATE)
    (sentence,) = bandwidth_warnings(found, Sizes(SIZES, 256 * MIB), of_slope(found), "one thread")
    assert "did not allow" in sentence and "256 MiB" in sentence and "136 MiB" in sentence


def test_time_that_does_not_grow_with_bytes_gives_no_bandwidth() -> None:
    found, memory = timings(lambda size: 0.01, noise=0.3)
    assert of_slope(found) is None and bandwidth_ceiling(found, memory) is None
    (sentence,) = bandwidth_warnings(found, Sizes(SIZES, 32 * MIB), None, "one thread")
    assert "did not grow" in sentence


@pytest.mark.parametrize(
    ("size_mib", "rate", "words"),
    [(200, 26e9, None), (128, 26e9, "not beyond"), (4, 27e9, "not beyond"), (200, 40e9, "far above")],
)
def test_a_single_reading_is_judged_by_size_and_by_slope(size_mib: int, rate: float, words: str | None) -> None:
    slope = Interval(value=25.7e9, low=25e9, high=26e9, n=42)
    sentence = cache_resident(size_mib * MIB, rate, 32 * MIB, slope)
    assert sentence is None if words is None else sentence and words in sentence
