"""Straight lines through measurements, which single disturbed ones do not move, with their bounds.

The bounds come from fitting to measurements drawn anew; such draws lie closer together than new measurements would,
the more so the fewer there are, and are spread out by as much. Source: Hesterberg 2015 (expanded percentile intervals).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from profiling.interval import Interval
from profiling.spread import HUBER, NORMAL, spread, spread_of_rows, student

_DRAWS = 400
_PAIRS_AT_ONCE = 4_000_000
_ROUNDS, _ROUNDS_OF_A_DRAW = 20, 4
_SINGULAR = 1e-11  # of the largest eigenvalue: a smaller one is none


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
    if len({x for x, _ in points}) < 2:
        raise ValueError("all points have the same x")
    x, y = np.array(points, float).T
    solution, random = np.stack(lines(x[None], y[None]), axis=1)[0], np.random.default_rng(seed)
    rows = random.integers(len(x), size=(_DRAWS, len(x)))
    while (alike := (x[rows] == x[rows[:, :1]]).all(axis=1)).any():
        rows[alike] = random.integers(len(x), size=(int(alike.sum()), len(x)))
    parts = np.array_split(rows, 1 + _DRAWS * len(x) ** 2 // _PAIRS_AT_ONCE)
    drawn = [np.stack(lines(x[part], y[part]), axis=1) for part in parts if len(part)]
    draws = _spread_out(np.concatenate(drawn), solution, len(x))
    return Line(*(_bounded(float(one), draws[:, i], len(x)) for i, one in enumerate(solution)))


def fit(units: Sequence[Mapping[str, float]], values: Sequence[float], *, seed: int = 0) -> Fit:
    """Huber's regression of the values on all units that vary; bounds by drawing measurements anew.

    A unit that has the same value in all measurements is part of the constant. Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    names = tuple(name for name in dict.fromkeys(k for u in units for k in u) if _varies(name, units))
    matrix = np.array([[1.0, *(u.get(name, 0.0) for name in names)] for u in units])
    y = np.asarray(values, float)
    solution = _huber(matrix[None], y[None], _ROUNDS)[0]
    rows = np.random.default_rng(seed).integers(len(y), size=(_DRAWS, len(y)))
    draws = _spread_out(_huber(matrix[rows], y[rows], _ROUNDS_OF_A_DRAW), solution, len(y))
    intervals = [_bounded(float(one), draws[:, i], len(y)) for i, one in enumerate(solution)]
    coefficients = dict(zip(names, intervals[1:], strict=True))
    return Fit(names, intervals[0], coefficients, spread(y - matrix @ solution), draws, len(y))


def _varies(name: str, units: Sequence[Mapping[str, float]]) -> bool:
    return len({u.get(name, 0.0) for u in units}) > 1


def lines(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Intercepts and slopes by Theil and Sen of the points in each row; NaN where all x of a row are the same."""
    first, second = np.triu_indices(x.shape[1], 1)
    apart = x[:, second] - x[:, first]
    rises = np.where(apart == 0, np.nan, (y[:, second] - y[:, first]) / np.where(apart == 0, 1, apart))
    slopes = np.full(len(x), np.nan)
    known = (apart != 0).any(axis=1)
    if known.any():
        slopes[known] = np.nanmedian(rises[known], axis=1)
    return np.median(y - slopes[:, None] * x, axis=1), slopes


def _huber(matrices: NDArray[np.float64], ys: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Iteratively reweighted least squares of several regressions at once: (d, n, p) and (d, n) give (d, p).

    Coefficients that the rows do not determine are the smallest that fit.
    """
    scale = np.maximum(np.abs(matrices).max(axis=(0, 1)), np.finfo(float).tiny)
    scaled, weights = matrices / scale, np.ones_like(ys)
    solutions = np.zeros((len(ys), matrices.shape[2]))
    for _ in range(rounds):
        weighted = scaled * weights[:, :, None]
        normal = np.einsum("dni,dnj->dij", weighted, scaled)
        inverse = cast(NDArray[np.float64], np.linalg.pinv(normal, rcond=_SINGULAR, hermitian=True))
        solutions = np.einsum("dij,dnj,dn->di", inverse, weighted, ys, optimize=True)
        residuals = ys - np.einsum("dni,di->dn", scaled, solutions)
        spreads = spread_of_rows(residuals)
        if not spreads.any():
            break
        far = np.abs(residuals) / np.where(spreads > 0, spreads, 1.0)[:, None] / HUBER
        weights = np.where(spreads[:, None] > 0, 1 / np.maximum(far, 1), weights)
    return solutions / scale


def _spread_out(draws: NDArray[np.float64], solution: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Around the solution, by what n measurements less the coefficients leave free: Student's quantile over the normal
    distribution's, and the bias of a standard deviation."""
    free = max(1, n - draws.shape[1])
    return solution + (draws - solution) * (student(free) / NORMAL * math.sqrt(n / free))


def _bounded(value: float, draws: NDArray[np.float64], n: int) -> Interval:
    return Interval.of_draws(value, list(map(float, draws)), n)
