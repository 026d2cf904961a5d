"""A GPU's clock and what holds it back, as NVIDIA's tool tells them; nothing where it is not installed."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict

_TOOL = "nvidia-smi"
_FIELDS = "uuid,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active"
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


def gpu_clocks(ask: Callable[[], str] = ask) -> dict[str, GpuClock]:
    """By the GPU's UUID. Lines that are not understood (`[N/A]` in a field) are passed over."""
    found: dict[str, GpuClock] = {}
    for line in ask().splitlines():
        with suppress(ValueError):
            uuid, mhz, most_mhz, active = (word.strip() for word in line.split(","))
            bits = int(active, 16)
            reasons = tuple(dict.fromkeys(words for bit, words in _REASONS.items() if bits & bit))
            found[uuid] = GpuClock(mhz=float(mhz), most_mhz=float(most_mhz), held_back_by=reasons)
    return found


def held_back(device: str, clock: GpuClock) -> list[str]:
    """A sentence when the GPU is held back."""
    if not clock.held_back_by:
        return []
    reasons = " and ".join(clock.held_back_by)
    return [f"{device} was held back by {reasons}: {clock.mhz:.0f} of {clock.most_mhz:.0f} MHz."]
