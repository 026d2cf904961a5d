"""A survey of a CUDA device, for which PyTorch's `meta` device stands in: it takes all work and computes nothing."""

from types import SimpleNamespace

import pytest
import torch

from profiling.machine import cuda
from profiling.machine.gpu_clocks import GpuClock
from profiling.machine.survey import Effort, Survey, survey
from profiling.trace.clock import SystemClock
from tests.profiling.machine.fake_system import MIB

DEVICE = "meta"
TINY = Effort(
    rounds=2, repetitions=2, each_s=0.001, width=64, memory_bytes=16 * MIB, smallest_bytes=MIB, probe_s=0.02,
    probe_bytes=10 * MIB, calls=20, torch_types=("float32", "bfloat16"),
)  # fmt: skip


@pytest.fixture(scope="module")
def waits() -> list[str]:
    return []


@pytest.fixture(scope="module")
def found(waits: list[str]) -> Survey:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "synchronize", waits.append)
        properties = SimpleNamespace(L2_cache_size=50 * MIB, uuid="2")
        patch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (64 << 30, 80 << 30))
        patch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        free = GpuClock(mhz=1980, most_mhz=1980, held_back_by=())
        held = GpuClock(mhz=1200, most_mhz=1980, held_back_by=("heat",))
        patch.setattr(cuda, "gpu_clocks", lambda: {"GPU-1": free, "GPU-2": held})
        return survey(SystemClock(), lambda step: None, devices={DEVICE: "a GPU"}, effort=TINY, threads=(1,))


def test_its_arithmetic_is_measured_in_every_type(found: Survey) -> None:
    kernels = {c.name: c.kernel for c in found.ceilings if c.device == DEVICE and c.unit == "FLOP/s"}
    assert set(kernels) == {"float32", "bfloat16"}
    assert all("cuBLAS" in kernel and "compute 9.0" in kernel for kernel in kernels.values())


def test_launches_are_measured_waited_for_and_queued(found: Survey) -> None:
    launches = {overhead.name: overhead.each_s for overhead in found.overheads if overhead.device == DEVICE}
    assert set(launches) == {"launch and wait", "queued launch"}
    assert all(each.value > 0 for each in launches.values())


def test_all_work_is_waited_for_on_that_device(found: Survey, waits: list[str]) -> None:
    assert set(waits) == {DEVICE} and len(waits) > 15 * 2


def test_it_is_probed_and_its_clock_is_noted(found: Survey) -> None:
    places = [{rates.device for rates in reading.rates} for reading in found.probes]
    assert all(seen <= {device} for seen, device in zip(places, ("cpu", DEVICE) * 2, strict=True))
    assert found.devices == {DEVICE: "a GPU"} and found.gpus[DEVICE].mhz == 1200
    assert any(f"{DEVICE} was held back by heat" in warning for warning in found.warnings)
