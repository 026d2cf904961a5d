"""What NVIDIA's tool prints, in plain words."""

import pytest

from profiling.machine.gpu_clocks import gpu_clocks, held_back


@pytest.mark.parametrize(
    ("active", "reasons"),
    [("0x0000000000000000", ()), ("0x0000000000000001", ()), ("0x0000000000000004", ("its power limit",)),
     ("0x0000000000000068", ("a hardware slowdown", "heat"))],
)  # fmt: skip
def test_reasons_are_read_from_bits(active: str, reasons: tuple[str, ...]) -> None:
    clock = gpu_clocks(lambda: f"GPU-1, 1500, 1980, {active}\n")["GPU-1"]
    assert (clock.mhz, clock.most_mhz, clock.held_back_by) == (1500, 1980, reasons)


def test_a_gpu_that_is_held_back_is_said() -> None:
    clocks = gpu_clocks(lambda: "GPU-1, 1980, 1980, 0x0\nGPU-2, 1200, 1980, 0x4\n")
    assert held_back("cuda:0", clocks["GPU-1"]) == []
    assert held_back("cuda:1", clocks["GPU-2"]) == ["cuda:1 was held back by its power limit: 1200 of 1980 MHz."]


@pytest.mark.parametrize("printed", ["", "GPU-1, [N/A], 1980, 0x0\n", "NVIDIA-SMI has failed\n"])
def test_what_is_not_understood_is_passed_over(printed: str) -> None:
    assert gpu_clocks(lambda: printed) == {}
