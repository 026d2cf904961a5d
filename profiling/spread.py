"""How far measurements lie apart, so that a few disturbed ones do not count, and what follows from it for bounds."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NORMAL = 1.959964  # between this and its negative lie 95 % of a normal distribution
SPREAD_OF_MAD = 1.4826  # a normal distribution's standard deviation over its median absolute deviation
HUBER = 1.345  # residuals beyond so many standard deviations count less: 95 % efficient for normal ones (Huber 1964)


def spread(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The standard deviation of most of the values, from their median absolute deviation. NaN without any."""
    return float(spread_of_rows(np.asarray(values, float)[None])[0])


def spread_of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The spread of each row: (d, n) gives (d)."""
    middle = np.median(rows, axis=1, keepdims=True)
    return SPREAD_OF_MAD * np.median(np.abs(rows - middle), axis=1)


def of_median(count: int) -> float:
    """The standard deviation of the median of so many normal values over that of one: the square root of pi / 2n, for
    large n."""
    return min(1.0, (np.pi / 2 / count) ** 0.5)


def student(freedom: int) -> float:
    """The upper 95 % bound of Student's distribution, which stands for NORMAL where a spread is of few values. Source:
    Abramowitz and Stegun 26.7.5."""
    z = NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
