"""What each step of a turn took beside what its work must take at least.

The passes of a loop (tokens, patches) are one reading: a single one may be over before its time is taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from profiling.calibration import CPU
from profiling.interval import Interval
from profiling.operations import IN_LOOPS, TOKEN, UNIT_OF_PASS, numbers, operation_of, units_of
from profiling.roofline import Term
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import loop_ns
from profiling.work_book import WorkBook

_LOOPS = {stage: operation for stage in Stage if (operation := operation_of(stage)) in IN_LOOPS}


@dataclass(frozen=True, slots=True)
class Reading:
    """`count` operations of one kind, `step` of a turn, took `duration_s` together; `units` are means over them.

    `terms` are their work, in so many serial `steps`, and `least` the time it needs; they are empty and None where the
    work, or a ceiling, is not known.
    """

    operation: str
    duration_s: float
    units: Mapping[str, float]
    count: int = 1
    step: int | None = None
    device: str = CPU
    terms: tuple[Term, ...] = ()
    steps: float = 1
    least: Interval | None = None


def readings(turn: Turn, book: WorkBook, ceilings: Mapping[str, Interval]) -> list[Reading]:
    """One for each step that is an engine's operation, in order. `ceilings` by name."""
    found = (reading_of(step, book, ceilings) for step in turn.steps)
    return [reading for reading in found if reading is not None]


def reading_of(step: Step, book: WorkBook, ceilings: Mapping[str, Interval]) -> Reading | None:
    """None for a step that is no operation, or a loop that did not record its passes."""
    bare = _of_loop(step) if step.stage in _LOOPS else _of_step(step)
    return None if bare is None else counted(bare, book, ceilings)


def counted(bare: Reading, book: WorkBook, ceilings: Mapping[str, Interval]) -> Reading:
    """The reading with the work that the book counts for it."""
    known, count = book.operations.get(bare.operation), bare.count
    terms = tuple(term.at(bare.units, count) for term in known.terms) if known else ()
    return Reading(
        bare.operation,
        bare.duration_s,
        bare.units,
        bare.count,
        bare.step,
        book.devices.get(engine_of(bare.operation), bare.device),
        terms,
        bare.count * known.steps.at(bare.units) if known else bare.count,
        least_time(terms, ceilings),
    )


def least_time(terms: Iterable[Term], ceilings: Mapping[str, Interval]) -> Interval | None:
    """What the work must take at least, one term after another; None without work, or where a ceiling is not known.

    The lower bound is the time at the ceilings' upper bounds.
    """
    value = low = high = 0.0
    counts: list[int] = []
    for term in terms:
        reading = _bounds(term.work.bytes, term.read, ceilings)
        computing = _bounds(term.work.flops, term.rate, ceilings)
        if reading is None or computing is None:
            return None
        value += max(reading.value, computing.value)
        low += max(reading.low, computing.low)
        high += max(reading.high, computing.high)
        counts += [one.n for one in (reading, computing) if one is not _NOTHING]
    return Interval(value=value, low=low, high=high, n=min(counts)) if counts else None


class _Bounds(NamedTuple):
    value: float
    low: float
    high: float
    n: int


_NOTHING = _Bounds(0.0, 0.0, 0.0, 0)


def _bounds(amount: float, name: str, ceilings: Mapping[str, Interval]) -> _Bounds | None:
    """Of the time for an amount of work; None where its ceiling is not known."""
    if not amount:
        return _NOTHING
    ceiling = ceilings.get(name)
    if ceiling is None or ceiling.low <= 0:
        return None
    return _Bounds(amount / ceiling.value, amount / ceiling.high, amount / ceiling.low, ceiling.n)


def engine_of(operation: str) -> str:
    """The engine whose operation it is: asr, llm, tts, ..."""
    return operation.partition(".")[0]


def ceilings_of(terms: Iterable[Term]) -> set[str]:
    """The names of the ceilings that bound the work."""
    read = {term.read for term in terms if term.work.bytes}
    return read | {term.rate for term in terms if term.work.flops}


def _of_step(step: Step) -> Reading | None:
    name = operation_of(step.stage)
    return None if name is None else Reading(name, step.duration_ns / 1e9, units_of(name, step), step=step.index)


def _of_loop(step: Step) -> Reading | None:
    """Tokens that were chosen without an evaluation of their own (the first, drafted ones) read nothing: they are left
    out."""
    times_ns = loop_ns(step)
    name = _LOOPS[step.stage]
    if not times_ns:
        return None
    unit, key = UNIT_OF_PASS[name]
    counts = numbers(step.attributes.get(key))
    if len(counts) != len(times_ns):
        return Reading(name, sum(times_ns) / 1e9, {}, len(times_ns), step.index)
    if name == TOKEN and 0 in counts and any(counts):
        pairs = [(ns, count) for ns, count in zip(times_ns, counts, strict=True) if count]
        times_ns, counts = [ns for ns, _ in pairs], [count for _, count in pairs]
    return Reading(name, sum(times_ns) / 1e9, {unit: sum(counts) / len(counts)}, len(times_ns), step.index)
