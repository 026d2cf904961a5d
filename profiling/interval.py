"""Estimates with the bounds within which they lie, with 95 % confidence."""

import math
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

CONFIDENCE = 0.95
ENOUGH_FOR_A_MEDIAN = 6  # with fewer values no interval between two of them holds the median with 95 % confidence


class Interval(BaseModel):
    """`value` lies between `low` and `high`; it came from `n` measurements."""

    model_config = ConfigDict(frozen=True)

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        """What was set or counted, not measured."""
        return cls(value=value, low=value, high=value, n=0)

    @classmethod
    def of_median(cls, values: Sequence[float]) -> "Interval":
        """The median, between two of the values in order, which holds whatever the values' distribution is.

        With fewer than six values the bounds are the smallest and the largest, and hold with less confidence. Raises
        ValueError without any value. Source: the sign test; the binomial distribution's quantiles with p = 1/2.
        """
        if not values:
            raise ValueError("no values")
        ordered = sorted(values)
        n = len(ordered)
        below = _rank(n)
        return cls(value=float(np.median(ordered)), low=ordered[below], high=ordered[n - 1 - below], n=n)

    @classmethod
    def of_draws(cls, value: float, draws: Sequence[float], n: int) -> "Interval":
        """Between the quantiles of what a bootstrap has drawn."""
        low, high = np.quantile(np.asarray(draws, float), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return cls(value=value, low=min(value, float(low)), high=max(value, float(high)), n=n)

    @property
    def half_width(self) -> float:
        """Half of the distance between the bounds, as a share of the value; infinite for a value of 0."""
        return math.inf if self.value == 0 else (self.high - self.low) / 2 / abs(self.value)

    def scaled(self, factor: float) -> "Interval":
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(value=self.value * factor, low=low, high=high, n=self.n)

    def overlaps(self, other: "Interval") -> bool:
        return self.low <= other.high and other.low <= self.high


def _rank(n: int) -> int:
    """How many of n values, at most, lie below the median's lower bound: the largest k for which fewer than k + 1 of n
    tosses of a coin are heads with a probability of at most 2.5 %."""
    probability, below = 0.5**n if n < 1000 else 0.0, -1
    if n >= 1000:  # where the normal distribution is as good and 0.5**n is not
        return max(0, math.floor(n / 2 - 1.959964 * math.sqrt(n) / 2) - 1)
    total = probability
    while total <= (1 - CONFIDENCE) / 2:
        below += 1
        probability *= (n - below) / (below + 1)
        total += probability
    return max(0, below)
