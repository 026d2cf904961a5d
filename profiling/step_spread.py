"""How much the same work differs from one time to the next, over the steps of a run."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from profiling.changes.change import Service, services_of
from profiling.spread import NORMAL, spread, student
from profiling.trace.timeline import Step
from profiling.trace.vocabulary import KIND_OF_STAGE, Kind

_ENOUGH = 3  # steps: with fewer nothing is said
_ROBUST_FROM = 10  # values: with fewer the standard deviation is the better estimate


def spreads(steps: Iterable[Step]) -> dict[str, float]:
    """By operation, or by stage for our own code: the standard deviation of a whole step's time as a share of what the
    run's other steps of the kind let expect for its units; wider where those are few.

    Waits have none: they do not vary by themselves."""
    by_kind: dict[str, list[list[Service]]] = {}
    for step in steps:
        found = services_of(step)
        if step.duration_ns and KIND_OF_STAGE.get(step.stage) is not Kind.WAIT:
            by_kind.setdefault(kind_of(found[0]), []).append(found)
    return {kind: _spread(found) for kind, found in by_kind.items() if len(found) >= _ENOUGH}


def kind_of(service: Service) -> str:
    return service.name or service.stage


def _spread(steps: Sequence[Sequence[Service]]) -> float:
    """A step's passes are taken together, for what disturbs one of them often disturbs them all."""
    all_of_them = [service for step in steps for service in step]
    expected = iter(_expected([s.units for s in all_of_them], [s.seconds.value for s in all_of_them]))
    ratios: list[float] = []
    for step in steps:
        total = sum(next(expected) for _ in step)
        if total > 0:
            ratios.append(sum(service.seconds.value for service in step) / total)
    return _deviation(ratios) if len(ratios) >= _ENOUGH else 0.0


def _expected(units: Sequence[Mapping[str, float]], values: Sequence[float]) -> list[float]:
    """By a straight line over the units that vary; there must be several values for each of its coefficients."""
    names = [name for name in dict.fromkeys(k for u in units for k in u) if len({u.get(name, 0.0) for u in units}) > 1]
    if len(values) < 3 * (1 + len(names)):
        names = []
    largest = {name: max(abs(u.get(name, 0.0)) for u in units) for name in names}
    matrix = np.array([[1.0, *(u.get(name, 0.0) / largest[name] for name in names)] for u in units])
    solution = np.linalg.lstsq(matrix, np.asarray(values, float), rcond=None)[0]
    return list(map(float, matrix @ solution))


def _deviation(values: Sequence[float]) -> float:
    if len(values) < _ROBUST_FROM:
        return statistics.stdev(values) * student(len(values) - 1) / NORMAL
    return spread(values) * student(len(values) - 1) / NORMAL
