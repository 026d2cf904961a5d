"""The operations of a whole run as columns, so that a million of them can be explained in seconds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from profiling.operations import UNIT_OF_PASS, numbers, operation_of, units_of
from profiling.trace import vocabulary as v
from profiling.trace.garbage import no_search_for_cycles
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_STAGES = tuple(Stage)
_LONGEST_NS = 2.0**61  # an offset beyond it is no time, and would not fit


@dataclass(frozen=True)
class Table:
    """All operations of one name, a row each, in the order of the turns and of their steps. `turn` counts the turns as
    given, `step` is the step's index in its turn. A unit is NaN where an operation does not tell it. `overlap_s` is how
    long other engines worked at the same time."""

    name: str
    start_ns: Integers
    end_ns: Integers
    turn: NDArray[np.int32]
    step: NDArray[np.int32]
    stage: NDArray[np.int32]
    units: Mapping[str, Floats]
    overlap_s: Floats

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_s(self) -> Floats:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def stages(self) -> list[Stage]:
        """Those that have rows, in pipeline order."""
        return [_STAGES[code] for code in np.flatnonzero(np.bincount(self.stage))]

    def of_stages(self, *stages: Stage) -> "Table":
        return self.rows(np.flatnonzero(np.isin(self.stage, [_STAGES.index(stage) for stage in stages])))

    def of_turn(self, turn: int) -> "Table":
        first, last = np.searchsorted(self.turn, np.array([turn, turn + 1], np.int32))
        return self.rows(slice(int(first), int(last)))

    def rows(self, chosen: slice | NDArray[np.intp]) -> "Table":
        return Table(
            self.name,
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.turn[chosen],
            self.step[chosen],
            self.stage[chosen],
            {unit: values[chosen] for unit, values in self.units.items()},
            self.overlap_s[chosen],
        )


def tables(turns: Sequence[Turn]) -> dict[str, Table]:
    """By operation. The same rows as `operations.operations` gives for each turn; a pass that ends before it begins
    takes no time. Other engines' work counts as overlapping whichever of the turns it belongs to."""
    with no_search_for_cycles():
        pieces = _pieces(turns)
    return _with_overlap({name: _table(name, pieces.pop(name)) for name in list(pieces)})


class _Piece(NamedTuple):
    """The rows of one step, times as offsets from its start; a unit may be told of its first ones only."""

    turn: int
    step: Step
    starts_ns: Sequence[float]
    ends_ns: Sequence[float]
    units: Mapping[str, Sequence[float]]


def _pieces(turns: Iterable[Turn]) -> dict[str, list[_Piece]]:
    """By operation."""
    found: dict[str, list[_Piece]] = {}
    for number, turn in enumerate(turns):
        for step in turn.steps:
            if name := operation_of(step.stage):
                found.setdefault(name, []).append(_piece(name, number, step))
    return found


def _piece(name: str, turn: int, step: Step) -> _Piece:
    if name in UNIT_OF_PASS:
        starts, ends = (numbers(step.attributes.get(key)) for key in (v.START_TIMES_NS, v.END_TIMES_NS))
        if count := min(len(starts), len(ends)):
            unit, key = UNIT_OF_PASS[name]
            told = numbers(step.attributes.get(key))[:count]
            return _Piece(turn, step, starts[:count], ends[:count], {unit: told})
        return _Piece(turn, step, (0,), (step.duration_ns,), {})
    units = {unit: (value,) for unit, value in units_of(name, step).items()}
    return _Piece(turn, step, (0,), (step.duration_ns,), units)


def _integers(offsets_ns: Iterable[Sequence[float]], count: int) -> Integers:
    found = np.fromiter(chain.from_iterable(offsets_ns), float, count)
    return found.clip(-_LONGEST_NS, _LONGEST_NS).astype(np.int64)


def _table(name: str, pieces: Sequence[_Piece]) -> Table:
    counts = [len(piece.starts_ns) for piece in pieces]
    units: dict[str, Floats] = {}
    row = 0
    for piece, count in zip(pieces, counts, strict=True):
        for unit, told in piece.units.items():
            if unit not in units:
                units[unit] = np.full(sum(counts), np.nan)
            units[unit][row : row + len(told)] = told
        row += count
    begin_ns = np.repeat(np.array([piece.step.start_ns for piece in pieces], np.int64), counts)
    start_ns = begin_ns + _integers((piece.starts_ns for piece in pieces), row)
    end_ns = np.maximum(start_ns, begin_ns + _integers((piece.ends_ns for piece in pieces), row))
    turn = np.repeat(np.array([piece.turn for piece in pieces], np.int32), counts)
    step = np.repeat(np.array([piece.step.index for piece in pieces], np.int32), counts)
    stage = np.repeat(np.array([_STAGES.index(piece.step.stage) for piece in pieces], np.int32), counts)
    return Table(name, start_ns, end_ns, turn, step, stage, units, np.zeros(len(start_ns)))


def _with_overlap(found: Mapping[str, Table]) -> dict[str, Table]:
    result: dict[str, Table] = {}
    for name, table in found.items():
        others = [other for other in found.values() if _engine(other.name) != _engine(name)]
        overlap_s = np.zeros(len(table))
        if others:
            starts = np.concatenate([other.start_ns for other in others])
            ends = np.concatenate([other.end_ns for other in others])
            covered = _Covered(starts, ends)
            overlap_s = (covered.before(table.end_ns) - covered.before(table.start_ns)) / 1e9
        columns = (table.start_ns, table.end_ns, table.turn, table.step, table.stage)
        result[name] = Table(name, *columns, table.units, overlap_s)
    return result


def _engine(operation: str) -> str:
    return operation.split(".")[0]


class _Covered:
    """The union of intervals of time, which may overlap each other."""

    def __init__(self, start_ns: Integers, end_ns: Integers):
        order = np.argsort(start_ns, kind="stable")
        starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
        first = np.concatenate([[True], starts[1:] > ends[:-1]])
        last = np.concatenate([first[1:], [True]])
        self._start_ns, self._end_ns = starts[first], ends[last]
        self._length_ns = np.concatenate([[0], np.cumsum(self._end_ns - self._start_ns)])

    def before(self, time_ns: Integers) -> Integers:
        """How much of the union lies before each of the times."""
        begun = np.searchsorted(self._start_ns, time_ns, side="right")
        running_ns = np.maximum(0, self._end_ns[np.maximum(begun - 1, 0)] - time_ns)
        return self._length_ns[begun] - np.where(begun > 0, running_ns, 0)
