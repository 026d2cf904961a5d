"""Where a phrase's time goes: one part of the work ends where the next begins, so an interval's parts sum to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent.device_times import Moments


@dataclass(frozen=True)
class Lap:
    """A stretch of time and what it was spent on."""

    part: str
    start_ns: int
    end_ns: int


class Stopwatch:
    """Marks where a part begins. It runs from the first `begin` to `stop`, and may be started again."""

    def __init__(self, times: Moments) -> None:
        self._times = times
        self._parts: list[str] = []
        self._marks: list[Any] = []

    def begin(self, part: str) -> None:
        """From now on the time is this part's."""
        self._parts.append(part)
        self._marks.append(self._times.mark())

    def stop(self) -> list[Lap]:
        """The laps since the first `begin`, one after another without gaps. Waits for the device where there is one."""
        times_ns = self._times.resolve([*self._marks, self._times.mark()])
        laps = [Lap(part, start, end) for part, start, end in zip(self._parts, times_ns, times_ns[1:], strict=False)]
        self._parts, self._marks = [], []
        return laps


def by_part(laps: Iterable[Lap], parts: Sequence[str]) -> dict[str, int]:
    """The nanoseconds of each of `parts`, in that order; 0 for one that did not occur."""
    totals = dict.fromkeys(parts, 0)
    for lap in laps:
        totals[lap.part] += lap.end_ns - lap.start_ns
    return totals
