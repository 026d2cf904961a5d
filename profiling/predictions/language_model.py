"""The language model: decode against the bandwidth ceiling, prefill against arithmetic, thinking against its tokens."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profiling.critical_path import critical_path
from profiling.fit import theil_sen
from profiling.interval import Interval
from profiling.operations import PREFILL, TOKEN
from profiling.predictions.conditions import Conditions, Measured, first_impossible, missing_ceilings
from profiling.predictions.operation_law import Batch, operation_law
from profiling.predictions.prediction import Figure, Law, Prediction, compare, middle
from profiling.readings import Reading, counted
from profiling.trace import vocabulary as v
from profiling.trace.vocabulary import Stage
from profiling.turn import DECODE, loop_ns

_PROMPTS = 3  # different lengths of prompts that a fixed cost is told from


@dataclass(frozen=True)
class _Thought:
    """A turn's unspoken tokens, and seconds per visible token of the same turn."""

    batch: Batch
    visible_s: float | None


def language_model(turns: Sequence[Measured], conditions: Conditions) -> Iterator[Prediction]:
    yield _decode(turns, conditions)
    yield _prefill(turns, conditions)
    yield _thinking(turns, conditions)


def _decode(turns: Sequence[Measured], conditions: Conditions) -> Prediction:
    figures: list[Figure[Interval | None]] = []
    for one in turns:
        if found := _visible(one):
            tokens = sum(reading.count for reading in found)
            least = [reading.least for reading in found if reading.least is not None]
            per_token = _sum(least).scaled(1 / tokens) if len(least) == len(found) else None
            value = sum(reading.duration_s for reading in found) / tokens
            figures.append(Figure(value, per_token, first_impossible(found, conditions)))
    law = Law(
        "decode",
        "(weight + KV bytes per token) / read bandwidth, at least",
        "s per token",
        _middle,
        missing_ceilings(TOKEN, conditions),
        size=_value,
    )
    return compare(law, figures, _share)


def _share(least: Interval, measured: Interval) -> str:
    return f"{least.value / measured.value:.0%} of the ceiling, {1 / measured.value:.3g} tokens/s."


def _prefill(turns: Sequence[Measured], conditions: Conditions) -> Prediction:
    fixed = _fixed_cost(conditions)
    figures: list[Figure[Interval | None]] = []
    for one in turns:
        prompt = next((s for s in one.turn.steps if s.stage is Stage.LLM_PREFILL and v.WHAT not in s.attributes), None)
        for reading in one.of(PREFILL, steps=[] if prompt is None else [prompt.index]):
            least = None if reading.least is None else _sum([reading.least, fixed] if fixed else [reading.least])
            figures.append(Figure(reading.duration_s, least, first_impossible([reading], conditions)))
    law = Law(
        "prefill",
        "2 x parameters x tokens / peak, and a fixed cost",
        "s",
        _middle,
        missing_ceilings(PREFILL, conditions),
        size=_value,
    )
    told = "No fixed cost was calibrated." if fixed is None else f"{fixed.value * 1e3:.3g} ms of it are the fixed cost."
    return compare(law, figures, told)


def _fixed_cost(conditions: Conditions) -> Interval | None:
    """What remains of the calibrated time when the least time is gone: the constant of their regression."""
    samples = conditions.calibration.of(PREFILL) if conditions.calibration else []
    bare = [Reading(PREFILL, sample.duration_s, sample.units) for sample in samples]
    least = [counted(reading, conditions.book, conditions.ceilings).least for reading in bare]
    points = [(one.value, sample.duration_s) for one, sample in zip(least, samples, strict=True) if one is not None]
    if len({x for x, _ in points}) < _PROMPTS:
        return None
    found = theil_sen(points).intercept
    value, low, high = (max(0.0, bound) for bound in (found.value, found.low, found.high))
    return Interval(value=value, low=low, high=high, n=found.n)


def _thinking(turns: Sequence[Measured], conditions: Conditions) -> Prediction:
    calibrated = operation_law(conditions.calibration, TOKEN)

    def predict(thoughts: Sequence[_Thought]) -> Interval | None:
        if calibrated is not None:
            return calibrated.interval_at([[thought.batch] for thought in thoughts])
        own = [thought.visible_s for thought in thoughts if thought.visible_s is not None]
        tokens = statistics.median(thought.batch.count for thought in thoughts)
        return Interval.of_median(own).scaled(tokens) if len(own) == len(thoughts) else None

    def size(thought: _Thought) -> float | None:
        if calibrated is not None:
            return calibrated.at([thought.batch])
        return None if thought.visible_s is None else thought.batch.count * thought.visible_s

    figures = [figure for one in turns for figure in _thought(one, conditions)]
    law = Law(
        "thinking",
        "unspoken tokens / decode speed, all of it on the path",
        "s",
        predict,
        "No speed to predict it from." if figures else "No unspoken tokens in this run.",
        size,
    )
    speed = "of the model alone, as calibrated" if calibrated else "of the same turns' visible tokens"
    return compare(law, figures, f"The speed is that {speed}.")


def _thought(one: Measured, conditions: Conditions) -> Iterator[Figure[_Thought]]:
    path = critical_path(one.turn)
    on_path = {s.step for s in path.segments if s.stage is Stage.LLM_THINKING} if path else set[int | None]()
    steps = [step for step in one.turn.steps if step.index in on_path]
    count = sum(len(loop_ns(step) or ()) for step in steps)
    if path is None or count == 0:
        return
    readings = one.of(TOKEN, steps=[step.index for step in steps])
    evaluated = sum(reading.count for reading in readings)
    names = {name for reading in readings for name in reading.units}
    units = {name: sum(r.units.get(name, 0.0) * r.count for r in readings) / evaluated for name in names}
    visible = _visible(one)
    tokens = sum(reading.count for reading in visible)
    visible_s = sum(reading.duration_s for reading in visible) / tokens if tokens else None
    value = path.totals[Stage.LLM_THINKING] / 1e9
    yield Figure(value, _Thought(Batch(units, count), visible_s), first_impossible(readings, conditions))


def _visible(one: Measured) -> list[Reading]:
    return one.of(TOKEN, steps=[step.index for step in one.turn.steps if step.stage in DECODE])


def _value(least: Interval | None) -> float | None:
    return None if least is None else least.value


def _middle(found: Sequence[Interval | None]) -> Interval | None:
    known = [interval for interval in found if interval is not None]
    return middle(known) if len(known) == len(found) else None


def _sum(intervals: Sequence[Interval]) -> Interval:
    """Bound by bound: of what fails together, and wider than that of what does not."""
    return Interval(
        value=sum(one.value for one in intervals),
        low=sum(one.low for one in intervals),
        high=sum(one.high for one in intervals),
        n=min(one.n for one in intervals),
    )
