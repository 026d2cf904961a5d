"""What each step of a turn took beside what its work must take at least.

The passes of a loop (tokens, patches) are one reading: a single one may be over before its time is taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profiling.calibration import CPU
from profiling.interval import Interval
from profiling.operations import FIRST_PATCH, FORWARDS, KV_BYTES, PATCH, TOKEN, numbers, operations_of
from profiling.roofline import Term
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import loop_ns
from profiling.work_book import WorkBook

_LOOPS = {
    Stage.LLM_THINKING: TOKEN,
    Stage.LLM_FIRST_PHRASE: TOKEN,
    Stage.LLM_DECODE: TOKEN,
    Stage.TTS_FIRST_PATCH: FIRST_PATCH,
    Stage.TTS_PATCHES: PATCH,
}


@dataclass(frozen=True)
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
    known = book.operations.get(bare.operation)
    terms = tuple(term * bare.count for term in known.at(bare.units).values()) if known else ()
    return Reading(
        bare.operation,
        bare.duration_s,
        bare.units,
        bare.count,
        bare.step,
        book.devices.get(bare.operation.partition(".")[0], bare.device),
        terms,
        bare.count * known.steps.at(bare.units) if known else bare.count,
        least_time(terms, ceilings),
    )


def least_time(terms: Iterable[Term], ceilings: Mapping[str, Interval]) -> Interval | None:
    """What the work must take at least, one term after another; None without work, or where a ceiling is not known.

    The lower bound is the time at the ceilings' upper bounds.
    """
    work = list(terms)
    names = ceilings_of(work)
    if not names or not names <= ceilings.keys() or any(ceilings[name].low <= 0 for name in names):
        return None
    known = {name: ceilings[name] for name in names}
    return Interval(
        value=_seconds(work, {name: one.value for name, one in known.items()}),
        low=_seconds(work, {name: one.high for name, one in known.items()}),
        high=_seconds(work, {name: one.low for name, one in known.items()}),
        n=min(one.n for one in known.values()),
    )


def _seconds(terms: Iterable[Term], rates: Mapping[str, float]) -> float:
    return sum(term.seconds(rates) for term in terms)


def ceilings_of(terms: Iterable[Term]) -> set[str]:
    """The names of the ceilings that bound the work."""
    read = {term.read for term in terms if term.work.bytes}
    return read | {term.rate for term in terms if term.work.flops}


def _of_step(step: Step) -> Reading | None:
    operation = next(operations_of(step), None)
    if operation is None:
        return None
    return Reading(operation.name, operation.duration_ns / 1e9, operation.units, step=step.index)


def _of_loop(step: Step) -> Reading | None:
    """Tokens that were chosen without an evaluation of their own (the first, drafted ones) read nothing: they are left
    out."""
    times_ns = loop_ns(step)
    name = _LOOPS[step.stage]
    if not times_ns:
        return None
    unit, key = (KV_BYTES, v.LLM_KV_BYTES) if name == TOKEN else (FORWARDS, v.TTS_FORWARDS)
    counts = numbers(step.attributes.get(key))
    if len(counts) != len(times_ns):
        return Reading(name, sum(times_ns) / 1e9, {}, len(times_ns), step.index)
    if name == TOKEN and any(counts):
        pairs = [(ns, count) for ns, count in zip(times_ns, counts, strict=True) if count]
        times_ns, counts = [ns for ns, _ in pairs], [count for _, count in pairs]
    return Reading(name, sum(times_ns) / 1e9, {unit: sum(counts) / len(counts)}, len(times_ns), step.index)
