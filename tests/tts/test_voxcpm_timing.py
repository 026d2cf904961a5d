"""Stopwatches: the parts of an interval sum to it, on the host's clock and on a device's."""

import pytest
import torch

from agent.tts.voxcpm_timing import CudaStopwatch, Lap, Stopwatch, by_part, stopwatch
from tests.fakes.ticking import TickingClock

MS = 1_000_000


class FakeDevice:
    """Works through what the host asks of it, later than the host asks."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.waits = 0


class FakeEvent:
    device: FakeDevice

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: FakeDevice) -> None:
        self.ms = stream.ms

    def synchronize(self) -> None:
        self.device.waits += 1

    def elapsed_time(self, end: "FakeEvent") -> float:
        return end.ms - self.ms


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    FakeEvent.device = FakeDevice()
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: FakeEvent.device)
    return FakeEvent.device


def test_the_hosts_stopwatch() -> None:
    watch = stopwatch(TickingClock(), torch.device("cpu"))
    assert type(watch) is Stopwatch
    for part in ("a", "b", "a"):
        watch.begin(part)
    laps = watch.stop()
    assert laps == [Lap("a", MS, 2 * MS), Lap("b", 2 * MS, 3 * MS), Lap("a", 3 * MS, 4 * MS)]
    assert by_part(laps, ("b", "c", "a")) == {"b": MS, "c": 0, "a": 2 * MS}
    watch.begin("c")
    assert watch.stop() == [Lap("c", 5 * MS, 6 * MS)], "it starts anew"


def test_a_devices_stopwatch_takes_the_devices_time(device: FakeDevice) -> None:
    """The host has asked for everything after 3 ms; the device is done after 90 ms."""
    clock = TickingClock()
    watch = stopwatch(clock, torch.device("cuda"))
    assert isinstance(watch, CudaStopwatch)
    watch.begin("a")
    device.ms = 20.0
    watch.begin("b")
    device.ms = 50.0
    watch.begin("a")
    device.ms = 90.0
    assert device.waits == 0, "it waits only when it is read"
    clock.ns += 88 * MS
    laps = watch.stop()
    assert device.waits == 1 and laps[0].start_ns == MS and laps[-1].end_ns == clock.ns == 92 * MS
    assert [(lap.part, lap.end_ns - lap.start_ns) for lap in laps[1:]] == [("b", 30 * MS), ("a", 40 * MS)]
    assert sum(by_part(laps, ("a", "b")).values()) == 91 * MS


def test_no_part_begins_before_the_host_asked(device: FakeDevice) -> None:
    """Where the two clocks drift apart, the host's first reading holds."""
    watch = stopwatch(TickingClock(), torch.device("cuda:1"))
    watch.begin("a")
    device.ms = 1.0
    watch.begin("b")
    device.ms = 9.0
    laps = watch.stop()
    assert [(lap.start_ns, lap.end_ns) for lap in laps] == [(MS, MS), (MS, 3 * MS)]
