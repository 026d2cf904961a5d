"""Where a phrase's time goes: one part of the work ends where the next begins, so an interval's parts sum to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from profiling.trace.clock import Clock


@dataclass(frozen=True)
class Lap:
    """A stretch of time and what it was spent on."""

    part: str
    start_ns: int
    end_ns: int


class Stopwatch:
    """Reads the clock where a part begins. It runs from the first `begin` to `stop`, and may be started again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: list[str] = []
        self._times_ns: list[int] = []

    def begin(self, part: str) -> None:
        """From now on the time is this part's."""
        self._parts.append(part)
        self._times_ns.append(self._clock.now_ns())

    def stop(self) -> list[Lap]:
        """The laps since the first `begin`, one after another without gaps."""
        laps = _laps(self._parts, [*self._times_ns, self._clock.now_ns()])
        self._parts, self._times_ns = [], []
        return laps


class CudaStopwatch(Stopwatch):
    """Places an event on the device's stream where a part begins, and never waits but in `stop`.

    `stop` waits for the device once and reads the clock; the events' distances to that moment give their times on the
    clock. So a part lasts for as long as the device was at its work, also when the host runs ahead.
    """

    def __init__(self, clock: Clock, device: torch.device) -> None:
        super().__init__(clock)
        self._stream = torch.cuda.current_stream(device)
        self._events: list[torch.cuda.Event] = []

    def begin(self, part: str) -> None:
        super().begin(part)
        self._events.append(self._mark())

    def stop(self) -> list[Lap]:
        last = self._mark()
        last.synchronize()
        end_ns = self._clock.now_ns()
        # The host was never later than the device at a mark, so the first reading bounds the times from below.
        first_ns = self._times_ns[0]
        times_ns = [max(first_ns, end_ns - round(event.elapsed_time(last) * 1e6)) for event in self._events]
        laps = _laps(self._parts, [first_ns, *times_ns[1:], end_ns])
        self._parts, self._times_ns, self._events = [], [], []
        return laps

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event


def stopwatch(clock: Clock, device: torch.device) -> Stopwatch:
    """The one for work on this device."""
    return CudaStopwatch(clock, device) if device.type == "cuda" else Stopwatch(clock)


def by_part(laps: Iterable[Lap], parts: Sequence[str]) -> dict[str, int]:
    """The nanoseconds of each of `parts`, in that order; 0 for one that did not occur."""
    totals = dict.fromkeys(parts, 0)
    for lap in laps:
        totals[lap.part] += lap.end_ns - lap.start_ns
    return totals


def _laps(parts: Sequence[str], times_ns: Sequence[int]) -> list[Lap]:
    return [Lap(part, start, end) for part, start, end in zip(parts, times_ns, times_ns[1:], strict=False)]
