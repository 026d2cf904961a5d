"""Time: one monotonic clock in integer nanoseconds, and its tie to wall time."""

import time
from dataclasses import dataclass
from typing import Protocol

NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """A source of time in integer nanoseconds. Engines and the conversation take one; tests pass a virtual one."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never steps; its zero is arbitrary."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; may be stepped by the system."""
        ...


class SystemClock:
    """The machine's monotonic and wall clocks."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()


@dataclass(frozen=True)
class Anchor:
    """One moment read on both clocks. The first anchor of a run converts every time stamp of that run."""

    monotonic_ns: int
    wall_ns: int

    @classmethod
    def read(cls, clock: Clock) -> "Anchor":
        return cls(clock.now_ns(), clock.wall_ns())

    def to_wall_ns(self, monotonic_ns: int) -> int:
        return monotonic_ns - self.monotonic_ns + self.wall_ns

    def stepped_ns(self, later: "Anchor") -> int:
        """How far the wall clock was stepped (or slewed) between this anchor and a later one; positive is forward."""
        return (later.wall_ns - self.wall_ns) - (later.monotonic_ns - self.monotonic_ns)


def seconds(ns: int) -> float:
    return ns / NS_PER_S
