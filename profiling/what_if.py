"""What a run's latency would have been, had something been otherwise: every turn's graph, evaluated again."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profiling.changes.change import Change, ChangeRefused, Context
from profiling.critical_path import CriticalPath, critical_path
from profiling.evidence import Evidence
from profiling.impossibilities import Impossibilities, impossibilities
from profiling.interval import Interval
from profiling.plausibility import Surroundings
from profiling.retiming import Chance, Retiming
from profiling.step_spread import spreads
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import counts
from profiling.turn_graph import TurnGraph, engine_of

_MOST_DRAWS, _LEAST_DRAWS, _DRAWS_IN_ALL = 200, 100, 20_000


@dataclass(frozen=True)
class Row:
    """A stage, or the latency where `stage` is None: seconds on the critical path."""

    stage: Stage | None
    before: float
    after: Interval


@dataclass(frozen=True)
class WhatIf:
    """`rows` are in pipeline order, `latency` is theirs: of one turn exactly, of several each row's own median.

    The interval of `after` is where the same turns would be measured with the change, with 95 % confidence: it holds
    what is not known of the change (ceilings, calibration) and how much every step differs from one time to the next.
    `switched` counts the turns whose critical path would run through steps that were beside it. `caveats` are
    sentences."""

    labels: tuple[str, ...]
    turns: int
    rows: tuple[Row, ...]
    latency: Row
    switched: int
    caveats: tuple[str, ...]


def what_if(
    turns: Sequence[Turn],
    changes: Sequence[Change],
    evidence: Evidence,
    *,
    only: Turn | None = None,
    surroundings: Surroundings | None = None,
    seed: int = 0,
) -> WhatIf:
    """All changes at once, over the run's turns whose latency counts and that have no impossible step, or `only` one of
    them; `surroundings` tell the causes of the impossible apart. Raises ChangeRefused."""
    with_latency = [turn for turn in turns if counts(turn)]
    refused = impossibilities(with_latency, evidence.work_book, evidence.ceilings, surroundings)
    in_all = [turn for place, turn in enumerate(with_latency) if not refused.of(place)]
    counted = _asked_about(only, with_latency, in_all, refused)
    context = Context(counted, evidence)
    for change in changes:
        change.check(context)
    ordered = sorted(changes, key=lambda change: change.on_floors)
    steps = [(change, before, after) for change, before, after in _chain(ordered, context)]
    draws = max(_LEAST_DRAWS, min(_MOST_DRAWS, _DRAWS_IN_ALL // len(counted)))
    chance = Chance(spreads(step for turn in in_all for step in turn.steps), draws, seed)
    forecasts = [_Forecast(Retiming(turn, steps), chance) for turn in counted]
    caveats = [sentence for change, before, after in steps for sentence in change.caveats(before, after)]
    caveats += [*_left_out(refused, len(with_latency)), *_general_caveats(forecasts, chance)]
    return WhatIf(
        labels=tuple(change.label for change in changes),
        turns=len(counted),
        rows=tuple(_row(forecasts, stage) for stage in Stage if any(stage in f.stages for f in forecasts)),
        latency=_row(forecasts, None),
        switched=sum(forecast.switched for forecast in forecasts),
        caveats=tuple(dict.fromkeys(caveats)),
    )


def _asked_about(
    only: Turn | None, with_latency: Sequence[Turn], possible: Sequence[Turn], refused: Impossibilities
) -> Sequence[Turn]:
    """Raises ChangeRefused where nothing is left, and for a turn with an impossible step."""
    if only is not None:
        place = next((place for place, turn in enumerate(with_latency) if turn is only), None)
        if place is not None and (its_own := refused.of(place)):
            why = Impossibilities({place: its_own}).reasons
            raise ChangeRefused(f"The turn has an impossible step, so nothing follows from it: {why}.")
        return [only]
    if not with_latency:
        raise ChangeRefused("No turn of this run has a latency that counts: there is nothing to ask about.")
    if not possible:
        raise ChangeRefused(f"Every turn has an impossible step, so nothing follows from them: {refused.reasons}.")
    return possible


def _left_out(refused: Impossibilities, of: int) -> Iterable[str]:
    if number := len(refused.by_turn):
        are = "has an impossible step and is" if number == 1 else "have an impossible step and are"
        yield f"{number} of {of} turns {are} left out: {refused.reasons}."


def _chain(changes: Sequence[Change], context: Context) -> Iterable[tuple[Change, Context, Context]]:
    for change in changes:
        after = context.with_evidence(change.evidence_after(context.evidence))
        yield change, context, after
        context = after


class _Forecast:
    """One turn, evaluated in all draws; the first of them is the estimate itself."""

    def __init__(self, retiming: Retiming, chance: Chance) -> None:
        graph, times = retiming.graph, retiming.times(chance)
        self.retiming = retiming
        self.before = _path(graph.turn)
        self.paths = [_path(graph.retimed(times, draw)) for draw in range(chance.draws)]

    @cached_property
    def stages(self) -> set[Stage]:
        return {*self.before.totals, *self.paths[0].totals}

    @property
    def switched(self) -> bool:
        """Steps that a change has put in are no other path."""
        steps, new = self.retiming.graph.turn.steps, _steps(self.paths[0]) - _steps(self.before)
        return any(steps[step].duration_ns for step in new)

    def ns(self, stage: Stage | None) -> tuple[int, NDArray[np.int64]]:
        """Before, and in every draw after."""
        if stage is None:
            return self.before.total_ns, np.array([path.total_ns for path in self.paths], np.int64)
        return self.before.totals.get(stage, 0), np.array([path.totals.get(stage, 0) for path in self.paths], np.int64)


def _path(turn: Turn) -> CriticalPath:
    """One without length where A would come no later than S."""
    return critical_path(turn) or CriticalPath(())


def _steps(path: CriticalPath) -> set[int]:
    return {segment.step for segment in path.segments if segment.step is not None}


def _row(forecasts: Sequence[_Forecast], stage: Stage | None) -> Row:
    found = [forecast.ns(stage) for forecast in forecasts]
    before = statistics.median(ns for ns, _ in found) / 1e9
    drawn = np.median(np.array([ns for _, ns in found]), axis=0) / 1e9
    return Row(stage, before, Interval.of_draws(float(drawn[0]), list(map(float, drawn[1:])), len(forecasts)))


def _works_side_by_side(turn: Turn) -> bool:
    """Whether two engines did between S and A."""
    since, until = turn.speech_end_ns or 0, turn.first_audio_ns or 0
    work = sorted(
        (max(step.start_ns, since), min(step.end_ns, until), engine)
        for step in turn.steps
        if (engine := engine_of(step.stage)) and step.start_ns < until and step.end_ns > since
    )
    busy: dict[str, int] = {}
    for start_ns, end_ns, engine in work:
        if any(other != engine and ends_ns > start_ns for other, ends_ns in busy.items()):
            return True
        busy[engine] = max(end_ns, busy.get(engine, 0))
    return False


def _general_caveats(forecasts: Sequence[_Forecast], chance: Chance) -> Iterable[str]:
    graphs: list[TurnGraph] = [forecast.retiming.graph for forecast in forecasts]
    if any(graph.nodes[step].unknown_holder for graph in graphs for step in graph.before_first_audio):
        yield "Some steps waited for what is no step of their turn: that is taken to end when it did."
    if any(_works_side_by_side(graph.turn) for graph in graphs):
        yield "Engines that work side by side slow each other down: how much is taken to stay as it was."
    if any(forecast.retiming.delays_partials for forecast in forecasts):
        yield (
            "Partial transcripts would come due while the recogniser is busy: they are taken to wait for it, "
            "where it would skip some of them."
        )
    if missing := sorted({kind for f in forecasts for kind in f.retiming.kinds} - chance.spreads.keys()):
        yield (
            f"The run has too few steps to tell how much these differ from one time to the next: {', '.join(missing)}. "
            "The intervals leave that out."
        )
