"""What a prediction without a run consists of: one answer per figure, with the law that it comes from."""

from dataclasses import dataclass

from profiling.quantities import Dimension


class NotPredictable(ValueError):
    """A sentence: why there is no prediction, and what to give."""


@dataclass(frozen=True)
class Answer:
    """`value` in the base unit of its dimension, up to `to` where it is a range; `impossible` says why a figure that
    was given cannot be."""

    what: str
    value: float
    dimension: Dimension
    law: str
    to: float | None = None
    impossible: str = ""

    @property
    def shown(self) -> str:
        first = self.dimension.shown(self.value)
        return first if self.to is None else f"{first} to {self.dimension.shown(self.to)}"


@dataclass(frozen=True)
class Rates:
    """Bytes read and operations computed per second; None where not known."""

    bytes_per_s: float | None = None
    flops_per_s: float | None = None
