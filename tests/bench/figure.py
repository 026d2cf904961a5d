"""What a part of the benchmark hands over."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.console import Console


@dataclass(frozen=True)
class Figure:
    """One claim: what was measured, its limit, and how it was measured. `at_least` says on which side the limit is."""

    claim: str
    measured: float
    limit: float
    unit: str
    how: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


Part = Callable[[Console], Iterable[Figure]]


def load() -> str:
    """How many processes wanted to run over the last minute: wall times grow with them."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"
