"""The serial steps of a model's loop (tokens, patches, chunks) as one step of a turn."""

from collections.abc import Mapping, Sequence

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import Stage

Interval = tuple[int, int]


def loop_times(intervals: Sequence[Interval], start_ns: int) -> dict[str, Attribute]:
    """Start and end of each pass of a loop as arrays of offsets from `start_ns`; nothing when there is none."""
    if not intervals:
        return {}
    return {
        v.START_TIMES_NS: [start - start_ns for start, _ in intervals],
        v.END_TIMES_NS: [end - start_ns for _, end in intervals],
    }


def add_loop(
    turn: Turn,
    stage: Stage,
    intervals: Sequence[Interval],
    causes: Sequence[int | None],
    phrase: int | None,
    attributes: Mapping[str, Attribute] | None = None,
) -> int:
    """Add the step from the first pass's start to the last one's end; returns its index."""
    start_ns = intervals[0][0]
    times = loop_times(intervals, start_ns)
    return turn.add(stage, start_ns, intervals[-1][1], causes, phrase=phrase, attributes=times | dict(attributes or {}))


def by_part(name: str, parts: Sequence[Mapping[str, int]]) -> dict[str, Attribute]:
    """Durations by part, one entry per pass, as arrays; `name` has a place for the part. Passes without parts give
    none."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {name.format(key): [part.get(key, 0) for part in parts] for key in keys}
