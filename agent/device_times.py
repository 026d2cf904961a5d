"""Moments of an operation, read from the host's clock or, on a GPU, from CUDA events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from profiling.trace.clock import Clock


class Moments(Protocol):
    """Marks moments while work is issued; what they were is asked once, at the operation's end."""

    def mark(self) -> Any: ...

    def resolve(self, marks: Sequence[Any]) -> list[int]:
        """Nanoseconds on the host's clock, in the order of `marks`, which is the order in which they were made."""
        ...


def moments(device: torch.device, clock: Clock) -> Moments:
    """Those of work that the calling thread issues to a device."""
    return CudaMoments(device, clock) if device.type == "cuda" else HostMoments(clock)


class HostMoments:
    """Where a call returns when its work is done."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def mark(self) -> int:
        return self._clock.now_ns()

    def resolve(self, marks: Sequence[int]) -> list[int]:
        return list(marks)


@dataclass(frozen=True)
class CudaMark:
    """An event in a device's queue, and when the host put it there."""

    asked_ns: int
    event: torch.cuda.Event


class CudaMoments:
    """Where a call only queues its work: events in the queue, tied to the host's clock by one synchronisation.

    A moment is when the device got to its mark, also when the host ran ahead or another's work was in the queue. The
    host was never later than the device, so where the two clocks drift apart the host's reading bounds it from below.
    """

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._clock = clock

    def mark(self) -> CudaMark:
        return CudaMark(self._clock.now_ns(), self._event())

    def resolve(self, marks: Sequence[CudaMark]) -> list[int]:
        if not marks:
            return []
        tie = self._event()
        tie.synchronize()
        tie_ns = self._clock.now_ns()
        return [max(mark.asked_ns, tie_ns - round(mark.event.elapsed_time(tie) * 1e6)) for mark in marks]

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event
