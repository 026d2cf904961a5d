"""What a little more would give: how much sooner the first sound would come with 1 % more bandwidth or arithmetic, or
with one serial step fewer, each term of the path's operations evaluated anew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from profiling import operations as op
from profiling.bottleneck import BLOCKS, DRAWS, Attributor
from profiling.critical_path import critical_path
from profiling.floors import Amounts, Floats, amounts
from profiling.interval import Interval
from profiling.operation_table import Table
from profiling.trace.timeline import Turn

MORE_BANDWIDTH, MORE_COMPUTE = "1 % more bandwidth", "1 % more compute"
TOKEN_FEWER, PATCH_FEWER, FORWARD_FEWER = "one token fewer", "one patch fewer", "one diffusion pass fewer per patch"

_MORE = 1.01


@dataclass(frozen=True)
class Elasticity:
    """`change` would make a turn's latency shorter by `saved_ms`, which is so many percent of it: means over `turns`.
    Both are None where it cannot be known. Operations on the path `without` a floor count as unmoved by ceilings."""

    change: str
    turns: int
    saved_ms: Interval | None
    percent: Interval | None
    without: tuple[str, ...] = ()


def elasticities(run: Attributor, turns: Sequence[Turn], turn: int | None = None) -> list[Elasticity]:
    """Over the critical paths of all turns, those that `run` was made from, or of one; turns with an impossible step
    are left out. Changes that do not apply, no token being on the path, are left out; the list is empty without a
    critical path."""
    numbers = [number for number in (range(len(turns)) if turn is None else [turn]) if not run.impossible.of(number)]
    paths = {number: path for number in numbers if (path := critical_path(turns[number])) and path.total_ns}
    if not paths:
        return []
    pieces = [
        (number, segment.step, segment.start_ns, segment.end_ns)
        for number, path in paths.items()
        for segment in path.segments
        if segment.step is not None
    ]
    on_path = [_OnPath.of(table, pieces) for table in run.tables.values()]
    on_path = [found for found in on_path if len(found.table)]
    mean_latency_s = sum(path.total_ns for path in paths.values()) / len(paths) / 1e9

    without = tuple(found.table.name for found in on_path if _weighed(run, found) is None)

    def result(change: str, saved_s: Interval | None) -> Elasticity:
        if saved_s is None:
            return Elasticity(change, len(paths), None, None, without)
        saved_ms = saved_s.scaled(1000 / len(paths))
        return Elasticity(change, len(paths), saved_ms, saved_ms.scaled(0.1 / mean_latency_s), without)

    return [result(change, saved_s) for change, saved_s in _changes(run, on_path)]


@dataclass(frozen=True)
class _OnPath:
    """Operations with the share of each that lies on the path."""

    table: Table
    weights: Floats

    @classmethod
    def of(cls, table: Table, pieces: Sequence[tuple[int, int, int, int]]) -> "_OnPath":
        weights = np.zeros(len(table))
        places = int(table.step.max(initial=0)) + 1
        keys = table.turn.astype(np.int64) * places + table.step
        wanted = np.array([turn * places + step for turn, step, _, _ in pieces], np.int64)
        firsts, lasts = np.searchsorted(keys, wanted).tolist(), np.searchsorted(keys, wanted, side="right").tolist()
        for first, last, (_, step, start_ns, end_ns) in zip(firsts, lasts, pieces, strict=True):
            if step < places and first < last:
                inside = np.minimum(table.end_ns[first:last], end_ns) - np.maximum(table.start_ns[first:last], start_ns)
                lasted = np.maximum(table.end_ns[first:last] - table.start_ns[first:last], 1)
                weights[first:last] = np.clip(inside / lasted, 0, 1)
        rows = np.flatnonzero(weights)
        return cls(table.rows(rows), weights[rows])


def _changes(run: Attributor, on_path: Sequence[_OnPath]) -> Iterator[tuple[str, Interval | None]]:
    """Seconds saved, summed over the turns."""
    weighed = {found.table.name: _weighed(run, found) for found in on_path}
    known = [work for work in weighed.values() if work is not None]
    if known:
        reads = {name for work in known for name in work.reads}
        rates = {name for work in known for name in work.rates}
        yield MORE_BANDWIDTH, _faster(run, known, reads)
        yield MORE_COMPUTE, _faster(run, known, rates)
    else:
        yield MORE_BANDWIDTH, None
        yield MORE_COMPUTE, None
    tables = {found.table.name: found for found in on_path}
    for name, change in ((op.TOKEN, TOKEN_FEWER), (op.PATCH, PATCH_FEWER)):
        if name in tables:
            yield change, _one_fewer(tables[name])
    patches = [tables[name] for name in (op.FIRST_PATCH, op.PATCH) if name in tables]
    if any(op.FORWARDS in found.table.units for found in patches):
        saved = [draws for found in patches if (draws := _forward_fewer(run, found)) is not None]
        yield FORWARD_FEWER, _interval(np.sum(saved, axis=0)) if len(saved) == len(patches) else None


def _interval(draws: Floats) -> Interval:
    return Interval.of_draws(float(draws[0]), list(map(float, draws)), len(draws) - 1)


def _weighed(run: Attributor, found: _OnPath, work: Amounts | None = None) -> Amounts | None:
    """The work on the path; None where there is no floor. A share of the work takes that share of its time."""
    work = work or run.work_of(found.table)
    if work is None or not work.told.any() or not work.ceilings <= set(run.ceilings):
        return None
    shares = found.weights
    scaled = replace(work, flops=work.flops * shares, bytes=work.bytes * shares, steps=work.steps * shares)
    if len(shares) <= BLOCKS:
        return scaled
    order, starts = _alike(scaled, run.ceilings)
    return scaled.merged(order, starts)


def _alike(work: Amounts, ceilings: Mapping[str, Floats]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order in which operations of like size are neighbours, and where each block of them begins."""
    computing_s, reading_s = work.floors({name: rate[:1] for name, rate in ceilings.items()}, 1)
    order = np.argsort((computing_s + reading_s)[0], kind="stable")
    return order, np.linspace(0, len(order), BLOCKS, endpoint=False).astype(np.intp)


def _floor_s(work: Amounts, ceilings: Mapping[str, Floats]) -> Floats:
    computing_s, reading_s = work.floors(ceilings, DRAWS)
    return computing_s.sum(axis=1) + reading_s.sum(axis=1)


def _faster(run: Attributor, works: Sequence[Amounts], names: set[str]) -> Interval:
    raised = {name: rate * _MORE if name in names else rate for name, rate in run.ceilings.items()}
    spared_s = [_floor_s(work, run.ceilings) - _floor_s(work, raised) for work in works]
    return _interval(np.sum(spared_s, axis=0))


def _one_fewer(found: _OnPath) -> Interval:
    """What one of them takes, once in each turn that has any: the median of those that lie wholly on the path."""
    whole = np.flatnonzero(found.weights == 1)
    durations_s = (found.table.rows(whole) if len(whole) else found.table).duration_s
    return Interval.of_median(durations_s.tolist()).scaled(len(np.unique(found.table.turn)))


def _forward_fewer(run: Attributor, found: _OnPath) -> Floats | None:
    """Each patch on the path with one pass fewer through the diffusion module, if it has more than one."""
    table, law = found.table, run.work.get(found.table.name)
    cost = run.overheads[table.name]
    if law is None or cost is None or op.FORWARDS not in table.units:
        return None
    forwards = table.units[op.FORWARDS]
    fewer = amounts(law, {**table.units, op.FORWARDS: np.where(forwards > 1, forwards - 1, forwards)}, len(table))
    before, after = _weighed(run, found), _weighed(run, found, fewer)
    if before is None or after is None:
        return None
    steps = float(before.steps.sum() - after.steps.sum())
    spared_s = _floor_s(before, run.ceilings) - _floor_s(after, run.ceilings)
    return spared_s * (1 + cost.slowness) + cost.per_step_s * steps
