"""Stopwatches: the parts of an interval sum to it, on the host's clock and on a device's."""

import pytest
import torch

from agent.device_times import moments
from agent.tts.voxcpm_timing import Lap, Stopwatch, by_part
from tests.fakes.cuda import FakeDevice
from tests.fakes.ticking import TickingClock

MS = 1_000_000


def test_the_hosts_stopwatch() -> None:
    watch = Stopwatch(moments(torch.device("cpu"), TickingClock()))
    for part in ("a", "b", "a"):
        watch.begin(part)
    laps = watch.stop()
    assert laps == [Lap("a", MS, 2 * MS), Lap("b", 2 * MS, 3 * MS), Lap("a", 3 * MS, 4 * MS)]
    assert by_part(laps, ("b", "c", "a")) == {"b": MS, "c": 0, "a": 2 * MS}
    watch.begin("c")
    assert watch.stop() == [Lap("c", 5 * MS, 6 * MS)], "it starts anew"


def test_a_devices_stopwatch_takes_the_devices_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host has asked for everything after 4 ms; the device began after 3 ms and is done after 93 ms."""
    device, clock = FakeDevice().install(monkeypatch), TickingClock()
    watch = Stopwatch(moments(torch.device("cuda"), clock))
    for part, device.ms in (("a", 0.0), ("b", 20.0), ("a", 50.0)):
        watch.begin(part)
    device.ms = 90.0
    assert device.waits == 0, "it waits only when it is read"
    clock.ns += 88 * MS
    laps = watch.stop()
    assert device.waits == 1 and clock.ns == 93 * MS
    assert laps == [Lap("a", 3 * MS, 23 * MS), Lap("b", 23 * MS, 53 * MS), Lap("a", 53 * MS, 93 * MS)]
    assert by_part(laps, ("a", "b")) == {"a": 60 * MS, "b": 30 * MS}
