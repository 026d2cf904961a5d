"""A turn as a graph that can be re-evaluated: when each step would have been, had some taken another time.

A step starts a fixed time after the latest of its causes has ended, and not before its engine is free: an engine does
one thing at a time. What has no cause (the user's speech was it) starts when it did. Evaluated without a change, every
step is where it was recorded.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profiling.operations import operations_of
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import KIND_OF_STAGE, Kind, Stage

Nanoseconds = NDArray[np.int64]
_ENGINES = ("asr", "llm", "tts", Stage.SMART_TURN)
_SYNTHESIS = (Stage.TTS_FIRST_PATCH, Stage.TTS_PATCHES)


@dataclass(frozen=True, slots=True)
class Fill:
    """The patch with which the start buffer was full: which pass of which step, and how much later playback began."""

    step: int
    number: int
    lag_ns: int


@dataclass(frozen=True, slots=True)
class Node:
    """When a step starts: not before `not_before_ns`, and so many ns (`after`) after the end of each of these steps.

    A `timer` was set when it was recorded and runs out at an absolute time. `engine_before` is the step that its engine
    did last before. `unknown_holder` says that the step waited for something that is no step of the turn."""

    not_before_ns: int | None
    after: tuple[tuple[int, int], ...]
    timer: bool = False
    fill: Fill | None = None
    engine_before: int | None = None
    unknown_holder: bool = False


@dataclass(frozen=True)
class Times:
    """Start and end of each step that was evaluated (None for the others), each an array of shape (draws,)."""

    starts: Sequence[Nanoseconds | None]
    ends: Sequence[Nanoseconds | None]


class TurnGraph:
    """`nodes` are in the order of the turn's steps."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.nodes = _nodes(turn)

    @cached_property
    def before_first_audio(self) -> list[int]:
        """The steps that first audio depends on in any way, in order; none when the turn has no such step."""
        return self.needed_by(())

    def needed_by(self, steps: Iterable[int]) -> list[int]:
        """What first audio and these steps depend on, themselves included, in order."""
        wanted: set[int] = set()
        first_audio = [] if self.turn.first_audio_step is None else [self.turn.first_audio_step]
        to_visit = [*first_audio, *steps]
        while to_visit:
            index = to_visit.pop()
            if index not in wanted:
                wanted.add(index)
                fill = self.nodes[index].fill
                to_visit += [step for step, _ in self.nodes[index].after] + ([fill.step] if fill else [])
        return sorted(wanted)

    def evaluate(
        self,
        durations_ns: Mapping[int, Nanoseconds] | None = None,
        fills_ns: Mapping[int, tuple[int, Nanoseconds] | None] | None = None,
        only: Iterable[int] | None = None,
    ) -> Times:
        """Give steps other durations, each an array of shape (draws,); the others keep theirs. `fills_ns` are other
        fills of start buffers, by their step: how long after the start of which step playback begins, or None where
        the first patch is enough. `only` are steps with all that they depend on."""
        steps, given, fills = self.turn.steps, durations_ns or {}, fills_ns or {}
        starts: list[Nanoseconds | None] = [None] * len(steps)
        ends: list[Nanoseconds | None] = [None] * len(steps)
        for index in range(len(steps)) if only is None else only:
            node, step = self.nodes[index], steps[index]
            start = np.array([step.start_ns if node.not_before_ns is None else node.not_before_ns], np.int64)
            if node.after:
                limits = [_known(ends, other) + lag_ns for other, lag_ns in node.after]
                limits += [] if node.not_before_ns is None else [start]
                start = limits[0]
                for limit in limits[1:]:
                    start = np.maximum(start, limit)
            lasts = given.get(index)
            lasts = np.array([step.duration_ns], np.int64) if lasts is None else lasts
            if index in fills:
                filled = fills[index]
                end = start if filled is None else np.maximum(start, _known(starts, filled[0]) + filled[1])
            elif node.fill is not None:
                end = np.maximum(start, _known(starts, node.fill.step) + self.filled_after_ns(node.fill))
            elif node.timer:
                end = np.maximum(start, step.start_ns + lasts)
            else:
                end = start + lasts
            starts[index], ends[index] = start, end
        return Times(starts, ends)

    def first_audio_ns(self, times: Times) -> Nanoseconds | None:
        """A; None when the turn has none. Where no step ends there, it stays."""
        turn = self.turn
        if turn.first_audio_ns is None or turn.first_audio_step is None:
            return None if turn.first_audio_ns is None else np.array([turn.first_audio_ns], np.int64)
        after_ns = turn.first_audio_ns - turn.steps[turn.first_audio_step].end_ns
        return _known(times.ends, turn.first_audio_step) + after_ns

    def retimed(self, times: Times, draw: int = 0) -> Turn:
        """The turn as it would have been. Steps that were not evaluated and the insides of loops are as recorded; one
        that would have to wait for its engine says so."""
        steps = list(self.turn.steps)
        for index, (start, end) in enumerate(zip(times.starts, times.ends, strict=True)):
            if start is not None and end is not None:
                steps[index] = self._moved(steps[index], _at(start, draw), _at(end, draw), steps)
        first_audio = self.first_audio_ns(times)
        return replace(self.turn, steps=steps, first_audio_ns=None if first_audio is None else _at(first_audio, draw))

    def _moved(self, was: Step, start_ns: int, end_ns: int, steps: Sequence[Step]) -> Step:
        """`steps` are moved already up to this one."""
        waited_for, before = was.waited_for, self.nodes[was.index].engine_before
        if waited_for is None and before is not None and was.causes:
            gap_ns = was.start_ns - max(self.turn.steps[cause].end_ns for cause in was.causes)
            if start_ns - max(steps[cause].end_ns for cause in was.causes) > max(0, gap_ns):
                waited_for = str(steps[before].stage)
        return Step(was.index, was.stage, start_ns, end_ns, was.causes, waited_for, was.phrase, was.attributes)

    def filled_after_ns(self, fill: Fill) -> int:
        """From the start of its step on, as recorded."""
        patch = list(operations_of(self.turn.steps[fill.step]))[fill.number]
        return patch.end_ns - self.turn.steps[fill.step].start_ns + fill.lag_ns


def insert_before(turn: Turn, index: int, stage: Stage) -> Turn:
    """The turn with a step of no length before the step `index`: it has that step's causes and is its only one."""
    old = turn.steps[index]
    new = Step(index, stage, old.start_ns, old.start_ns, old.causes, old.waited_for)
    moved = [_renumbered(step, index) for step in turn.steps[index:]]
    moved[0] = replace(moved[0], causes=(index,), waited_for=None)
    first_audio_step = turn.first_audio_step
    if first_audio_step is not None and first_audio_step >= index:
        first_audio_step += 1
    return replace(turn, steps=[*turn.steps[:index], new, *moved], first_audio_step=first_audio_step)


def engine_of(stage: Stage) -> str | None:
    """Which engine a step of the stage keeps busy: asr, llm, tts or smart-turn."""
    if stage is Stage.SMART_TURN:
        return stage
    group = stage.partition(".")[0]
    return group if group in _ENGINES and KIND_OF_STAGE.get(stage) is Kind.WORK else None


def _nodes(turn: Turn) -> list[Node]:
    nodes: list[Node] = []
    busy: dict[str, list[tuple[int, int]]] = {engine: [] for engine in _ENGINES}  # ends, in order, and their steps
    for step in turn.steps:
        nodes.append(_node(turn, step, busy))
        if (engine := engine_of(step.stage)) is not None:
            insort(busy[engine], (step.end_ns, step.index))
    return nodes


def _node(turn: Turn, step: Step, busy: Mapping[str, Sequence[tuple[int, int]]]) -> Node:
    timer = step.stage is Stage.ASR_CHUNK_WAIT
    fill = _fill(turn, step) if step.stage is Stage.PLAYOUT_BUFFER else None
    before = _last_end(busy.get(engine_of(step.stage) or "", ()), step.start_ns)
    free = ((before[1], 0),) if before else ()
    engine_before = before[1] if before else None
    if not step.causes:
        return Node(step.start_ns, free, timer, fill, engine_before)
    ready_ns = max(turn.steps[cause].end_ns for cause in step.causes)
    gap_ns = step.start_ns - ready_ns
    if step.waited_for is None or gap_ns <= 0:
        return Node(None, (*((c, gap_ns) for c in step.causes), *free), timer, fill, engine_before)
    held = _last_end(busy.get(_engine_named(step.waited_for), ()), step.start_ns)
    if held is None or held[0] <= ready_ns:
        return Node(
            step.start_ns, (*((c, 0) for c in step.causes), *free), timer, fill, engine_before, unknown_holder=True
        )
    lag_ns = step.start_ns - held[0]
    return Node(None, (*((c, lag_ns) for c in step.causes), (held[1], lag_ns), *free), timer, fill, engine_before)


def _engine_named(holder: str) -> str:
    """Holders are named for their operation: tts.synthesise, asr.partial, endpoint.smart_turn."""
    return holder if holder == Stage.SMART_TURN else holder.partition(".")[0]


def _last_end(ends: Sequence[tuple[int, int]], until_ns: int) -> tuple[int, int] | None:
    place = bisect_right(ends, until_ns, key=lambda end: end[0])
    return ends[place - 1] if place else None


def _fill(turn: Turn, buffer: Step) -> Fill | None:
    """The last patch that was there when playback began; None where that was the one whose coming began the buffer."""
    made = [
        (patch.end_ns, step.index, number)
        for step in turn.steps[: buffer.index]
        if step.stage in _SYNTHESIS
        for number, patch in enumerate(operations_of(step))
        if buffer.start_ns < patch.end_ns <= buffer.end_ns
    ]
    if not made:
        return None
    end_ns, step, number = max(made)
    return Fill(step, number, buffer.end_ns - end_ns)


def _renumbered(step: Step, inserted: int) -> Step:
    causes = tuple(cause + (cause >= inserted) for cause in step.causes)
    return replace(step, index=step.index + 1, causes=causes)


def _known(values: Sequence[Nanoseconds | None], index: int) -> Nanoseconds:
    value = values[index]
    if value is None:
        raise ValueError(f"step {index} was left out of the evaluation, but another depends on it")
    return value


def _at(values: Nanoseconds, draw: int) -> int:
    return int(values[draw if len(values) > 1 else 0])
