"""Laws fitted to small models, asked for a full-size one: the time of an operation as a straight line over its units.

A unit is what grows with the size: the seconds that the machine's ceilings allow for the work, a count of steps. The
coefficient of the former says how many times slower than the ceilings the kernels are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiling.fit import Fit, fit
from profiling.interval import Interval

TOLERANCE = 0.15
_SAME = 1e-6  # relative: a unit that differs by less did not vary


@dataclass(frozen=True)
class Point:
    """An operation at one size, timed once or several times; `weight_bytes` are those that it reads, `ceiling_s` is
    what the machine's ceilings allowed for it at that time."""

    units: Mapping[str, float]
    times_s: tuple[float, ...]
    weight_bytes: float = 0.0
    ceiling_s: float = 0.0


@dataclass(frozen=True)
class Law:
    """t = a + the sum of b times each unit, and the points that it came from."""

    fit: Fit
    points: tuple[Point, ...]

    def holds_for(self, units: Mapping[str, float]) -> bool:
        """Whether every unit that the points did not vary has the value that it had in them."""
        fixed = {**self.points[0].units}
        return all(
            name in self.fit.names or _alike(fixed.get(name, 0.0), units.get(name, 0.0))
            for name in dict.fromkeys((*fixed, *units))
        )

    def at_s(self, units: Mapping[str, float]) -> float:
        return self.fit.at(units)

    def draws_s(self, units: Mapping[str, float]) -> NDArray[np.float64]:
        """The value by each draw of the bootstrap."""
        return self.fit.draws @ np.array([1.0, *(units.get(name, 0.0) for name in self.fit.names)])

    @property
    def farthest_off_line(self) -> float:
        """By which share a point's median lies off the law, at most, over those whose own bounds do not reach it."""
        off = 0.0
        for point in self.points:
            line_s, measured = self.at_s(point.units), Interval.of_median(point.times_s)
            if line_s and not measured.low <= line_s <= measured.high:
                off = max(off, abs(measured.value / line_s - 1))
        return off

    @property
    def largest(self) -> Point:
        return max(self.points, key=lambda point: point.weight_bytes)


def law_of(points: Sequence[Point]) -> Law | None:
    """None where the points do not determine a coefficient for each unit that varies among them. Points of the same
    units are one, whenever they were measured."""
    timed = _merged(points)
    if not timed:
        return None
    rows = [(point.units, time_s) for point in timed for time_s in point.times_s]
    names = dict.fromkeys(name for point in timed for name in point.units)
    varying = [n for n in names if not all(_alike(p.units.get(n, 0.0), timed[0].units.get(n, 0.0)) for p in timed)]
    units = [{name: of.get(name, 0.0) for name in varying} for of, _ in rows]
    matrix = np.array([[1.0, *of.values()] for of in units])
    if np.linalg.matrix_rank(matrix / np.abs(matrix).max(axis=0)) < matrix.shape[1]:
        return None
    return Law(fit(units, [time_s for _, time_s in rows]), tuple(timed))


@dataclass(frozen=True)
class Asked:
    """An operation of the full size, done `times` over: its law, its units in the law's seconds, and by what factor the
    machine has become slower since the law was measured; `ceiling_s` is what its ceilings now allow for one time."""

    law: Law
    units: Mapping[str, float]
    slower: float = 1.0
    times: float = 1.0
    weight_bytes: float = 0.0
    ceiling_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.law.at_s(self.units) * self.slower * self.times


def predicted(asked: Sequence[Asked], stated_s: float = 0.0) -> Interval | None:
    """The sum, with the bounds of the laws' fits; None where nothing is asked, a law is asked beyond what it varied, or
    the line falls below zero there."""
    if not asked or not all(one.law.holds_for(one.units) for one in asked):
        return None
    value = stated_s + sum(one.seconds for one in asked)
    draws = stated_s + sum(
        (one.law.draws_s(one.units) * (one.slower * one.times) for one in asked), np.zeros(len(asked[0].law.fit.draws))
    )
    if value <= 0:
        return None
    return Interval.of_draws(value, list(map(float, draws)), min(one.law.fit.n for one in asked))


def _merged(points: Sequence[Point]) -> list[Point]:
    found: dict[tuple[tuple[str, float], ...], Point] = {}
    for point in points:
        key = tuple(sorted((name, float(f"{value:.9g}")) for name, value in point.units.items()))
        before = found[key].times_s if key in found else ()
        found[key] = Point(point.units, (*before, *point.times_s), point.weight_bytes, point.ceiling_s)
    return [point for point in found.values() if point.times_s]


def _alike(a: float, b: float) -> bool:
    return abs(a - b) <= _SAME * max(abs(a), abs(b))
