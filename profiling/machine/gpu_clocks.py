"""A GPU's clock and what holds it back, as NVIDIA's tool tells them; nothing where it is not installed."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict

_TOOL = "nvidia-smi"
_FIELDS = "index,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active"
_LONGEST_S = 10
# Source: NVIDIA Management Library, nvmlClocksEventReasons. Idleness and clocks that the user has set do not count.
_REASONS = {
    0x4: "its power limit",
    0x8: "a hardware slowdown",
    0x20: "heat",
    0x40: "heat",
    0x80: "the power supply",
}


class GpuClock(BaseModel):
    """`held_back_by` are plain words; empty when nothing holds the GPU back."""

    model_config = ConfigDict(frozen=True)

    index: int
    mhz: float
    most_mhz: float
    held_back_by: tuple[str, ...]


def ask() -> str:
    """What the tool prints, one line a GPU; empty without the tool or an answer."""
    tool = shutil.which(_TOOL)
    if tool is None:
        return ""
    command = [tool, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S).stdout
    return ""


def gpu_clocks(ask: Callable[[], str] = ask) -> tuple[GpuClock, ...]:
    """Lines that are not understood (`[N/A]` in a field) are passed over."""
    found: list[GpuClock] = []
    for line in ask().splitlines():
        with suppress(ValueError):
            index, mhz, most_mhz, active = (word.strip() for word in line.split(","))
            bits = int(active, 16)
            reasons = tuple(dict.fromkeys(words for bit, words in _REASONS.items() if bits & bit))
            found.append(GpuClock(index=int(index), mhz=float(mhz), most_mhz=float(most_mhz), held_back_by=reasons))
    return tuple(found)


def held_back(clocks: tuple[GpuClock, ...]) -> list[str]:
    """A sentence for each GPU that is held back."""
    return [
        f"GPU {clock.index} was held back by {' and '.join(clock.held_back_by)}: {clock.mhz:.0f} of "
        f"{clock.most_mhz:.0f} MHz."
        for clock in clocks
        if clock.held_back_by
    ]
