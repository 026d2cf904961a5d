"""Where a turn's latency went: the chain of steps that the listener waited for, from S to A without a gap."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Kind, Stage

OURS = (Stage.HOST, Stage.QUEUE, Stage.UNATTRIBUTED)  # what is neither a model's work nor a wait that was chosen


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the path, `start_ns` to `end_ns`. A gap (`QUEUE`, `UNATTRIBUTED`) has no kind and no step; a `QUEUE`'s
    `waited_for` names who held the resource."""

    stage: Stage
    kind: Kind | None
    start_ns: int
    end_ns: int
    step: int | None = None
    waited_for: str | None = None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CriticalPath:
    """The segments in order of time. Each begins where the one before it ends: they sum to A - S exactly."""

    segments: tuple[Segment, ...]

    @property
    def total_ns(self) -> int:
        return sum(segment.duration_ns for segment in self.segments)

    @cached_property
    def totals(self) -> dict[Stage, int]:
        """Nanoseconds by stage, in pipeline order; stages that are not on the path are left out."""
        return _by_stage([(segment.stage, segment.duration_ns) for segment in self.segments])

    @property
    def ours_ns(self) -> int:
        """host + queue + unattributed."""
        return sum(segment.duration_ns for segment in self.segments if segment.stage in OURS)


def critical_path(turn: Turn) -> CriticalPath | None:
    """Walk back from A: charge each step to its stage, jump to its latest cause, until S.

    Of causes that end together the one earlier in the pipeline is taken. The time between the latest cause's end (S,
    when there is no cause) and the step's start is `QUEUE` when the step names whom it waited for, else `UNATTRIBUTED`.
    Where a cause ends only after the step's start, the step keeps the overlap. None when the turn has no latency or A
    lies before S.
    """
    if turn.speech_end_ns is None or turn.first_audio_ns is None or turn.first_audio_ns < turn.speech_end_ns:
        return None
    walk = _Walk(turn.speech_end_ns, turn.first_audio_ns)
    index, waited_for = turn.first_audio_step, None
    while index is not None and walk.cursor_ns > walk.start_ns:
        step = turn.steps[index]
        walk.charge_gap(step.end_ns, waited_for)
        walk.charge_step(step)
        index, waited_for = latest_cause(step, turn.steps), step.waited_for
    walk.charge_gap(walk.start_ns, waited_for)
    return CriticalPath(tuple(reversed(walk.segments)))


def hidden(turn: Turn, before_ns: int | None = None) -> dict[Stage, int]:
    """Nanoseconds by stage, in pipeline order, of what ran off the path or before S (up to `before_ns`, if given)."""
    path = critical_path(turn)
    spent: list[tuple[Stage, int]] = [(s.stage, -s.duration_ns) for s in path.segments if s.kind] if path else []
    for step in turn.steps:
        end_ns = step.end_ns if before_ns is None else min(step.end_ns, before_ns)
        spent.append((step.stage, max(0, end_ns - step.start_ns)))
    return {stage: ns for stage, ns in _by_stage(spent).items() if ns > 0}


def latest_cause(step: Step, steps: Sequence[Step]) -> int | None:
    """The index of the cause that ended last; of several, the one earliest in the pipeline, then in the turn."""
    if len(step.causes) < 2:
        return step.causes[0] if step.causes else None
    return min(step.causes, key=lambda c: (-steps[c].end_ns, steps[c].stage.order, c), default=None)


class _Walk:
    """The path from its end backwards: `segments` cover `cursor_ns` to A, latest first."""

    def __init__(self, start_ns: int, end_ns: int):
        self.start_ns = start_ns
        self.cursor_ns = end_ns
        self.segments: list[Segment] = []

    def charge_gap(self, down_to_ns: int, waited_for: str | None) -> None:
        stage = Stage.UNATTRIBUTED if waited_for is None else Stage.QUEUE
        self._charge(down_to_ns, stage, None, None, waited_for)

    def charge_step(self, step: Step) -> None:
        self._charge(step.start_ns, step.stage, step.kind, step.index, None)

    def _charge(
        self, down_to_ns: int, stage: Stage, kind: Kind | None, step: int | None, waited_for: str | None
    ) -> None:
        start_ns = max(down_to_ns, self.start_ns)
        if start_ns < self.cursor_ns:
            self.segments.append(Segment(stage, kind, start_ns, self.cursor_ns, step, waited_for))
            self.cursor_ns = start_ns


def _by_stage(spent: Sequence[tuple[Stage, int]]) -> dict[Stage, int]:
    totals: dict[Stage, int] = {}
    for stage, ns in spent:
        totals[stage] = totals.get(stage, 0) + ns
    return {stage: totals[stage] for stage in Stage if stage in totals}
