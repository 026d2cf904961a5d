"""Moments of an operation, read from the host's clock or, on a GPU, from CUDA events."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from profiling.trace.clock import Clock


class Moments(Protocol):
    """Marks moments while work is issued; what they were is asked once, at the operation's end."""

    def mark(self) -> Any: ...

    def resolve(self, marks: Sequence[Any]) -> list[int]:
        """Nanoseconds on the host's clock, in the order of `marks`."""
        ...


def moments(device: torch.device, clock: Clock) -> Moments:
    return CudaMoments(device, clock) if device.type == "cuda" else HostMoments(clock)


class HostMoments:
    """Where a call returns when its work is done."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def mark(self) -> int:
        return self._clock.now_ns()

    def resolve(self, marks: Sequence[int]) -> list[int]:
        return list(marks)


class CudaMoments:
    """Where a call only queues its work: events in the queue, tied to the host's clock by one synchronisation."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._clock = clock

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def resolve(self, marks: Sequence[torch.cuda.Event]) -> list[int]:
        if not marks:
            return []
        tie = self.mark()
        tie.synchronize()
        tie_ns = self._clock.now_ns()
        return [tie_ns - round(mark.elapsed_time(tie) * 1e6) for mark in marks]
