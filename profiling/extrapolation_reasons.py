"""Why a full-size measurement lies off a law that small models gave: only what the data say, each with its figure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiling.extrapolation import TOLERANCE, Asked
from profiling.interval import Interval

_DRIFTED = 0.05
_MOST = 0.5  # of what is missing: a part with as much of it is the one to look at
_GOOD_PART = 0.25  # of a prediction: what disturbs a law with less of it explains little


@dataclass(frozen=True)
class Compared:
    """A full-size operation: `measured_s` once or several times, what the laws say, and what each was asked."""

    measured_s: Sequence[float]
    predicted: Interval
    asked: Sequence[Asked]

    @property
    def median_s(self) -> float:
        return statistics.median(self.measured_s)

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.median_s / self.predicted.value

    @property
    def holds(self) -> bool:
        """Within 15 % of the prediction."""
        return abs(self.ratio - 1) <= TOLERANCE

    @property
    def missing_s(self) -> float:
        return self.median_s - self.predicted.value


def reasons(
    compared: Compared,
    cache_bytes: int,
    parts: Mapping[str, Compared] | None = None,
    alone: Compared | None = None,
) -> tuple[str, ...]:
    """Clauses for one that does not hold, none for one that does. `parts` are its own by name; `alone` is the same
    operation at full size with nothing beside it; `cache_bytes` the last-level cache."""
    if compared.holds:
        return ()
    found = [*_by_part(compared, parts or {})]
    if alone is not None:
        found += _beside_others(compared, alone)
    found += _drift(compared)
    found += _spread(compared)
    found += _cached(compared, cache_bytes)
    found += _off_line(compared)
    found += _another_rate(compared)
    return tuple(found) or ("nothing in the measurements tells why",)


def _by_part(whole: Compared, parts: Mapping[str, Compared]) -> Iterator[str]:
    if not parts or not whole.missing_s:
        return
    name, part = max(parts.items(), key=lambda item: item[1].missing_s / whole.missing_s)
    share = part.missing_s / whole.missing_s
    if share >= _MOST:
        yield f"{name} is {_signed(part.missing_s)} of the {_signed(whole.missing_s)}"


def _beside_others(compared: Compared, alone: Compared) -> Iterator[str]:
    if alone.holds:
        changed = compared.ratio / alone.ratio - 1
        yield f"alone at full size it held ({alone.ratio:.2f}): beside the rest of the turn it is {_changed(changed)}"


def _drift(compared: Compared) -> Iterator[str]:
    """How much slower the ceilings had become, weighted by the predicted times."""
    total = sum(one.seconds for one in compared.asked)
    undrifted = sum(one.seconds / one.slower for one in compared.asked)
    drift = total / undrifted - 1 if undrifted else 0.0
    if abs(drift) > _DRIFTED:
        yield f"the machine became {_changed(drift)} between the two by its ceilings, which the law allows for"


def _spread(compared: Compared) -> Iterator[str]:
    measured = Interval.of_median(compared.measured_s)
    if measured.half_width > TOLERANCE:
        yield f"the measurements are spread by ± {percent(measured.half_width)}"
    if compared.predicted.half_width > TOLERANCE:
        yield f"the law is known to ± {percent(compared.predicted.half_width)} only"


def _cached(compared: Compared, cache_bytes: int) -> Iterator[str]:
    for one in _weighty(compared):
        small = one.law.largest.weight_bytes
        if 0 < small < cache_bytes < one.weight_bytes:
            yield (
                f"the small models' {small / 1e6:.0f} MB fit the last-level cache of {cache_bytes / 1e6:.0f} MB, the "
                f"full size's {one.weight_bytes / 1e6:.0f} MB do not"
            )
            return


def _off_line(compared: Compared) -> Iterator[str]:
    off = max((one.law.farthest_off_line for one in _weighty(compared)), default=0.0)
    if off > TOLERANCE:
        yield f"the small models themselves lie up to {percent(off)} off a straight line: the kernels change with size"


def _another_rate(compared: Compared) -> Iterator[str]:
    """What an operation costs for what the ceilings allow, there and here: of one with a single unit, beyond its fixed
    part."""
    if len({id(one.law) for one in compared.asked}) != 1:
        return
    first = compared.asked[0]
    largest, allowed_s = first.law.largest, sum(one.ceiling_s * one.times for one in compared.asked)
    if len(first.law.fit.names) != 1:
        if largest.ceiling_s and allowed_s:
            full, small = compared.median_s / allowed_s, Interval.of_median(largest.times_s).value / largest.ceiling_s
            yield f"it took {full:.2f} times what the ceilings allow, the largest small model {small:.2f}"
        return
    (name,) = first.law.fit.names
    work = sum(one.units.get(name, 0.0) * one.slower * one.times for one in compared.asked)
    fixed = sum(one.law.fit.constant.value * one.slower * one.times for one in compared.asked)
    small = first.law.fit.coefficients[name].value
    full = (compared.median_s - fixed) / work if work else 0.0
    if full > 0 and small > 0:
        yield f"beyond the fixed part it took {full:.2f} times what the ceilings allow, the small models {small:.2f}"


def _weighty(compared: Compared) -> list[Asked]:
    """Those whose law has a good part in the whole prediction."""
    shares: dict[int, float] = {}
    for one in compared.asked:
        shares[id(one.law)] = shares.get(id(one.law), 0.0) + one.seconds / compared.predicted.value
    return [one for one in compared.asked if shares[id(one.law)] >= _GOOD_PART]


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _changed(change: float) -> str:
    return f"{percent(abs(change))} {'slower' if change > 0 else 'faster'}"


def _signed(s: float) -> str:
    return f"{'+' if s > 0 else '-'}{abs(s) * 1e3:.3g} ms" if abs(s) < 1 else f"{'+' if s > 0 else '-'}{abs(s):.2f} s"
