"""Moments of an operation: the host's own, and a device's tied to the host's clock."""

import pytest
import torch

from agent.device_times import CudaMoments, HostMoments, moments
from tests.fakes.cuda import FakeDevice
from tests.fakes.ticking import TickingClock

MS = 1_000_000


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice().install(monkeypatch)


def test_moments_on_a_cpu_are_the_hosts_clock() -> None:
    times = moments(torch.device("cpu"), TickingClock())
    assert isinstance(times, HostMoments)
    assert times.resolve([times.mark(), times.mark()]) == [MS, 2 * MS]


def test_moments_on_a_gpu_are_tied_to_the_hosts_clock_by_one_synchronisation(device: FakeDevice) -> None:
    """The host has asked for everything after 2 ms; the device is done after 75 ms."""
    clock = TickingClock()
    times = moments(torch.device("cuda:1"), clock)
    assert isinstance(times, CudaMoments) and device.name == "cuda:1"
    marks = []
    for device.ms in (20.0, 50.0):
        marks.append(times.mark())
    device.ms = 75.0
    assert device.waits == 0 and clock.ns == 2 * MS
    clock.ns = 99 * MS
    assert times.resolve(marks) == [45 * MS, 75 * MS]
    assert device.waits == 1 and clock.ns == 100 * MS


def test_no_moment_is_before_the_host_asked(device: FakeDevice) -> None:
    """Where the two clocks drift apart, the host's reading holds, for each mark its own."""
    times = moments(torch.device("cuda"), TickingClock())
    marks = []
    for device.ms in (0.0, 5.0, 9.5):
        marks.append(times.mark())
    device.ms = 10.0
    assert times.resolve(marks) == [MS, 2 * MS, round(3.5 * MS)]


def test_nothing_marked_needs_no_synchronisation(device: FakeDevice) -> None:
    assert moments(torch.device("cuda"), TickingClock()).resolve([]) == [] and device.waits == 0
