"""Full-size measurements against the laws of small models: what was asked of which law, what it says, and why not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.experiments.full_size.demands import Demand
from agent.experiments.full_size.samples import Row, Sample
from profiling.extrapolation import Asked, Law, Point, law_of, predicted
from profiling.extrapolation_reasons import Compared, reasons
from profiling.machine import Ceiling

_Key = frozenset[tuple[str, tuple[tuple[str, float], ...]]]


@dataclass(frozen=True)
class _Fitted:
    """A law, and the ceilings of the time at which it was measured."""

    law: Law
    rates: Mapping[str, float]


class SmallLaws:
    """Those of all engines by name, each with the machine as it was; `cache_bytes` is the last-level cache, 0 where the
    engines do not compute beside it."""

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        self._laws: dict[str, _Fitted] = {}
        self._alone: dict[_Key, Compared] = {}

    def fit(self, samples: Iterable[Sample], ceilings: Mapping[str, Ceiling]) -> None:
        """From the measurements of small models that ask one law each."""
        rates = _rates(ceilings)
        points: dict[str, list[Point]] = {}
        for sample in samples:
            if len(sample.demands) == 1 and sample.measured_s:
                (demand,) = sample.demands
                point = Point(demand.units(rates), sample.measured_s, demand.weight_bytes, demand.ceiling_s(rates))
                points.setdefault(demand.law, []).append(point)
        for name, those in points.items():
            if (law := law_of(those)) is not None:
                self._laws[name] = _Fitted(law, rates)

    def as_json(self) -> dict[str, Any]:
        """By name: the coefficients over seconds at the ceilings or counts, and what they were fitted to."""
        return {
            name: {
                "constant_s": fitted.law.fit.constant.model_dump(),
                "coefficients": {unit: one.model_dump() for unit, one in fitted.law.fit.coefficients.items()},
                "points": [
                    {"units": dict(point.units), "times_s": list(point.times_s), "weight_bytes": point.weight_bytes}
                    for point in fitted.law.points
                ],
            }
            for name, fitted in self._laws.items()
        }

    def compare(self, rows: Sequence[Row], ceilings: Mapping[str, Ceiling], *, alone: bool) -> list[Row]:
        """The rows with what the laws say of them. With `alone`, nothing ran beside them: what comes later and has
        something beside it is compared with them."""
        now = _rates(ceilings)
        compared = [self._compared(row, now) for row in rows]
        found: list[Row] = []
        for row, one in zip(rows, compared, strict=True):
            if one is None:
                found.append(row)
                continue
            parts = {
                str(other.sample.part): other_one
                for other, other_one in zip(rows, compared, strict=True)
                if other_one is not None and other.sample.part and _stage(other) == _stage(row)
            }
            key = _key(row.sample.demands)
            if alone:
                self._alone.setdefault(key, one)
            before = None if alone else self._alone.get(key)
            why = reasons(one, self._cache_bytes, {} if row.sample.part else parts, before)
            found.append(replace(row, compared=one, reasons=why))
        return found

    def _compared(self, row: Row, now: Mapping[str, float]) -> Compared | None:
        demands = row.sample.demands
        if not demands or any(demand.law not in self._laws for demand in demands):
            return None
        asked = [self._asked(demand, now) for demand in demands]
        stated_s = (row.sample.stated_s or 0.0) if row.sample.terms else 0.0  # else it is another prediction
        interval = predicted(asked, stated_s)
        return None if interval is None else Compared(row.sample.measured_s, interval, asked)

    def _asked(self, demand: Demand, now: Mapping[str, float]) -> Asked:
        fitted = self._laws[demand.law]
        then_s = demand.ceiling_s(fitted.rates)
        now_s = demand.ceiling_s(now)
        slower = now_s / then_s if then_s else 1.0
        return Asked(fitted.law, demand.units(fitted.rates), slower, demand.times, demand.weight_bytes, now_s)


def _rates(ceilings: Mapping[str, Ceiling]) -> dict[str, float]:
    return {name: ceiling.median for name, ceiling in ceilings.items()}


def _stage(row: Row) -> tuple[str, str]:
    return row.sample.engine, row.sample.stage


def _key(demands: Sequence[Demand]) -> _Key:
    return frozenset((demand.law, tuple(sorted(demand.counts.items()))) for demand in demands)
