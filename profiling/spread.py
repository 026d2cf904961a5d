"""How far measurements lie apart, so that a few disturbed ones do not count."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SPREAD_OF_MAD = 1.4826  # a normal distribution's standard deviation over its median absolute deviation


def spread(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The standard deviation of most of the values, from their median absolute deviation. NaN without any."""
    array = np.asarray(values, float)
    return float(_SPREAD_OF_MAD * np.median(np.abs(array - np.median(array))))


def of_median(count: int) -> float:
    """The standard deviation of the median of so many normal values over that of one: the square root of pi / 2n, for
    large n."""
    return min(1.0, (np.pi / 2 / count) ** 0.5)
