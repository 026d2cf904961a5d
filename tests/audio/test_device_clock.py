"""The times of a simulated device: drift, jitter, a backlog at the start, gaps, and a device that comes back."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from agent.audio.device_clock import DeviceClock

MS = 1_000_000
S = 1_000_000_000
START_NS = 77 * S
RATE = 24_000


@dataclass
class Device:
    """48 kHz by its own crystal, in blocks of 10 ms; what it says of them is off by noise, at first by a backlog."""

    ppm: float = 0.0
    jitter_ms: float = 0.3
    backlog_ms: float = 0.0
    origin_ns: int = START_NS
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    frame: int = 0

    def true_ns(self, frame: float) -> float:
        return self.origin_ns + frame / 48_000 * S / (1 + self.ppm * 1e-6)

    def blocks(self, seconds: float) -> Iterator[tuple[int, int]]:
        """Each block's first frame, and when the device says it crosses."""
        for _ in range(round(seconds * 100)):
            wrong_ms = self.rng.normal(0, self.jitter_ms) - (self.backlog_ms if self.frame < 4_800 else 0)
            yield self.frame, round(self.true_ns(self.frame) + wrong_ms * MS)
            self.frame += 480


def follow(clock: DeviceClock, device: Device, seconds: float) -> list[float]:
    """Milliseconds by which the clock is off, block by block since it has settled."""
    off: list[float] = []
    for frame, at_ns in device.blocks(seconds):
        clock.observe(frame, at_ns)
        if clock.settled:
            off.append((clock.ns_of(clock.sample_of(frame)) - device.true_ns(frame)) / MS)
    return off


def assert_monotone(clock: DeviceClock, last: int) -> None:
    times = [clock.ns_of(sample) for sample in range(-500, last, 7)]
    assert times == sorted(times)
    at = [clock.sample_at(ns) for ns in range(START_NS - 10 * MS, clock.ns_of(last), MS // 3)]
    assert at == sorted(at)
    for sample in range(0, last, 101):  # the first of those that cross at that time
        first = clock.sample_at(clock.ns_of(sample))
        assert first <= sample and clock.ns_of(first) == clock.ns_of(sample)
        assert clock.ns_of(clock.sample_at(clock.ns_of(sample) + 1)) > clock.ns_of(sample)


@pytest.mark.parametrize("ppm", [-200, 0, 150])
def test_a_minute_of_drift_is_followed_within_half_a_millisecond(ppm: float) -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    device = Device(ppm)
    off = follow(clock, device, 60)
    assert len(off) > 5_900
    assert max(np.abs(off[300:])) < 0.6
    assert_monotone(clock, 10 * RATE)


def test_a_backlog_at_the_start_moves_nothing_once_the_clock_has_settled() -> None:
    clock = DeviceClock(16_000, fills_gaps=True)
    clock.begin(48_000)
    off = follow(clock, Device(backlog_ms=150), 3)
    assert len(off) > 250 and max(np.abs(off)) < 1.0


def test_single_wild_blocks_move_nothing() -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    device = Device()
    follow(clock, device, 3)
    before = clock.ns_of(0)
    for number, (frame, at_ns) in enumerate(device.blocks(4)):
        clock.observe(frame, at_ns - (40 * MS if number % 3 == 0 else 0))
        assert abs(clock.ns_of(clock.sample_of(frame)) - device.true_ns(frame)) < 1.0 * MS
    assert clock.ns_of(0) == before


@pytest.mark.parametrize("told", [True, False])
def test_an_underrun_is_a_step_and_what_has_left_keeps_its_time(told: bool) -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    device = Device(ppm=80)
    follow(clock, device, 4)
    left = list(range(0, 3 * RATE, 1_000))
    times = [clock.ns_of(sample) for sample in left]
    device.origin_ns += 25 * MS  # the device played 25 ms of silence of its own
    for number, (frame, at_ns) in enumerate(device.blocks(0.4)):
        clock.observe(frame, at_ns, broken=told and number == 0)
    off = follow(clock, device, 3)
    assert max(np.abs(off)) < 1.0
    assert [clock.ns_of(sample) for sample in left] == times
    assert_monotone(clock, 8 * RATE)


def test_a_reported_break_is_mended_within_200_ms() -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    device = Device()
    follow(clock, device, 2)
    device.origin_ns += 6 * MS
    for number, (frame, at_ns) in enumerate(device.blocks(0.2)):
        clock.observe(frame, at_ns, broken=number == 0)
    assert max(np.abs(follow(clock, device, 1))) < 1.0


def test_a_device_that_turns_out_to_be_ahead_is_never_followed_backwards() -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    device = Device(jitter_ms=0)
    follow(clock, device, 3)
    device.origin_ns -= 30 * MS
    follow(clock, device, 1)
    assert max(np.abs(follow(clock, device, 1))) < 1.0
    assert_monotone(clock, 5 * RATE)


def test_frames_that_a_microphone_lost_are_filled_in_and_numbers_keep_to_time() -> None:
    clock = DeviceClock(16_000, fills_gaps=True)
    clock.begin(48_000)
    device = Device(jitter_ms=0.1)
    follow(clock, device, 3)
    line = clock.ns_of(0)
    device.origin_ns += 120 * MS
    filled = [clock.observe(frame, at, broken=number == 0) for number, (frame, at) in enumerate(device.blocks(1))]
    assert sum(filled) == pytest.approx(0.120 * 48_000, abs=0.001 * 48_000)
    assert clock.ns_of(0) == line
    assert max(np.abs(follow(clock, device, 2))) < 1.0


def test_a_device_that_comes_back_goes_on_with_the_numbers_that_time_calls_for() -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    follow(clock, Device(), 3)
    asked = clock.ns_of(2 * RATE)
    expected = clock.sample_at(START_NS + 11 * S)
    clock.begin(44_100)
    assert not clock.settled
    for number in range(100):
        clock.observe(number * 441, START_NS + 11 * S + number * 10 * MS)
    assert clock.settled
    assert clock.sample_of(0) == pytest.approx(expected, abs=RATE // 1_000)
    assert clock.sample_of(44_100) - clock.sample_of(0) == RATE
    assert clock.ns_of(clock.sample_of(44_100)) == pytest.approx(START_NS + 12 * S, abs=MS)
    assert clock.ns_of(2 * RATE) == asked
    assert_monotone(clock, 13 * RATE)


def test_a_device_that_never_runs_evenly_is_taken_as_it_is_after_two_seconds() -> None:
    clock = DeviceClock(RATE)
    clock.begin(48_000)
    rng = np.random.default_rng(2)
    for number in range(250):
        clock.observe(number * 480, START_NS + number * 10 * MS + (number % 10 < 5) * 60 * MS + int(rng.integers(MS)))
    assert clock.settled
