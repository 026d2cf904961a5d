"""Straight lines through measurements, which single disturbed ones do not move, with their bounds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import numpy as np
from numpy.typing import NDArray

from profiling.interval import Interval

_DRAWS = 400
_HUBER = 1.345  # residuals beyond so many standard deviations count less: 95 % efficient for normal ones (Huber 1964)
_ROUNDS = 20
_SPREAD_OF_MAD = 1.4826  # a normal distribution's standard deviation over its median absolute deviation


@dataclass(frozen=True)
class Line:
    """y = intercept + slope * x."""

    intercept: Interval
    slope: Interval

    def at(self, x: float) -> float:
        return self.intercept.value + self.slope.value * x


@dataclass(frozen=True)
class Fit:
    """y = constant + the sum of each coefficient times its unit. `draws` are the coefficients of the bootstrap, one row
    a draw, the constant first, then in the order of `names`."""

    names: tuple[str, ...]
    constant: Interval
    coefficients: Mapping[str, Interval]
    residual_spread: float
    draws: NDArray[np.float64]
    n: int

    def at(self, units: Mapping[str, float]) -> float:
        return self.constant.value + sum(self.coefficients[name].value * units.get(name, 0.0) for name in self.names)

    def interval_at(self, units: Mapping[str, float]) -> Interval:
        """Of the law's value there: where the middle of measurements lies, not where each of them does."""
        row = np.array([1.0, *(units.get(name, 0.0) for name in self.names)])
        return Interval.of_draws(self.at(units), list(map(float, self.draws @ row)), self.n)


def theil_sen(points: Sequence[tuple[float, float]], *, seed: int = 0) -> Line:
    """The median of the slopes between two points each, and of what that leaves; bounds by drawing points anew.

    Raises ValueError unless two of the points differ in x. Source: Theil 1950, Sen 1968.
    """
    intercept, slope = _line(points)
    random = np.random.default_rng(seed)
    drawn: list[tuple[float, float]] = []
    while len(drawn) < _DRAWS:
        chosen = [points[int(index)] for index in random.integers(len(points), size=len(points))]
        if len({x for x, _ in chosen}) > 1:
            drawn.append(_line(chosen))
    return Line(
        Interval.of_draws(intercept, [a for a, _ in drawn], len(points)),
        Interval.of_draws(slope, [b for _, b in drawn], len(points)),
    )


def fit(units: Sequence[Mapping[str, float]], values: Sequence[float], *, seed: int = 0) -> Fit:
    """Huber's regression of the values on all units that vary; bounds by drawing measurements anew.

    A unit that has the same value in all measurements is part of the constant. Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    names = tuple(name for name in dict.fromkeys(k for u in units for k in u) if _varies(name, units))
    matrix = np.array([[1.0, *(u.get(name, 0.0) for name in names)] for u in units])
    y = np.asarray(values, float)
    solution = _huber(matrix, y)
    random = np.random.default_rng(seed)
    rows = [random.integers(len(y), size=len(y)) for _ in range(_DRAWS)]
    draws = np.array([_huber(matrix[row], y[row], rounds=4) for row in rows])
    residuals = y - matrix @ solution
    intervals = [
        Interval.of_draws(float(solution[i]), list(map(float, draws[:, i])), len(y)) for i in range(len(solution))
    ]
    coefficients = dict(zip(names, intervals[1:], strict=True))
    return Fit(names, intervals[0], coefficients, _spread(residuals), draws, len(y))


def _varies(name: str, units: Sequence[Mapping[str, float]]) -> bool:
    return len({u.get(name, 0.0) for u in units}) > 1


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    if not slopes:
        raise ValueError("all points have the same x")
    slope = statistics.median(slopes)
    return statistics.median(y - slope * x for x, y in points), slope


def _huber(matrix: NDArray[np.float64], y: NDArray[np.float64], rounds: int = _ROUNDS) -> NDArray[np.float64]:
    """Iteratively reweighted least squares."""
    weights = np.ones(len(y))
    solution = np.zeros(matrix.shape[1], np.float64)
    for _ in range(rounds):
        root = np.sqrt(weights)
        solution = cast(NDArray[np.float64], np.linalg.lstsq(matrix * root[:, None], y * root, rcond=None)[0])
        residuals = y - matrix @ solution
        spread = _spread(residuals)
        if spread == 0:
            break
        scaled = np.abs(residuals) / spread / _HUBER
        weights = 1 / np.maximum(scaled, 1)
    return solution


def _spread(residuals: NDArray[np.float64]) -> float:
    return float(_SPREAD_OF_MAD * np.median(np.abs(residuals - np.median(residuals))))
