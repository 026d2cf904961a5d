"""A law's prediction beside what a run measured, and the verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from profiling.interval import ENOUGH_FOR_A_MEDIAN, Interval
from profiling.plausibility import Impossible

WIDEST = 0.3  # half-width, as a share, beyond which an interval agrees with too much to say anything
Basis = TypeVar("Basis")
Told = Callable[[Interval, Interval], str]  # from the prediction and the measurement


class Verdict(StrEnum):
    """`HIGH`: more than predicted. `TOO FEW`: measurements, or such different ones, that they say nothing."""

    PASS = "PASS"
    HIGH = "HIGH"
    LOW = "LOW"
    IMPOSSIBLE = "IMPOSSIBLE"
    TOO_FEW = "TOO FEW"


@dataclass(frozen=True)
class Prediction:
    """One law of a run: `formula` in words; both intervals in `unit`, for the median turn; no verdict where either is
    not known."""

    law: str
    formula: str
    unit: str
    predicted: Interval | None
    measured: Interval | None
    verdict: Verdict | None
    note: str = ""


@dataclass(frozen=True)
class Figure(Generic[Basis]):
    """One turn's, and what its prediction rests on."""

    value: float
    basis: Basis
    impossible: Impossible | None = None


@dataclass(frozen=True)
class Law(Generic[Basis]):
    """`predict` the median of figures from what they rest on; `none` says why there is no prediction, or no figure.

    Where figures grow with what they rest on, `size` is the law's value for one: each is brought to the median one's
    size before they are summed up. Long and short turns would make a wide interval of a law that holds for each.
    """

    name: str
    formula: str
    unit: str
    predict: Callable[[Sequence[Basis]], Interval | None]
    none: str
    size: Callable[[Basis], float | None] | None = None
    median: Callable[[Sequence[float]], Interval] = Interval.of_median


def compare(law: Law[Basis], figures: Sequence[Figure[Basis]], told: str | Told = "") -> Prediction:
    """Impossible figures are left out and said; where they are at least half of all, they are what is shown. `told` is
    the note beside a prediction."""
    refused = [figure for figure in figures if figure.impossible]
    shown = refused if 2 * len(refused) >= len(figures) else [f for f in figures if not f.impossible]
    if not shown:
        return Prediction(law.name, law.formula, law.unit, None, None, None, law.none)
    predicted = law.predict([figure.basis for figure in shown])
    measured = law.median(_comparable(law, shown, predicted))
    verdict = judge(predicted, measured)
    row = Prediction(law.name, law.formula, law.unit, predicted, measured, verdict)
    if shown is refused and refused[0].impossible:
        return replace(row, verdict=Verdict.IMPOSSIBLE, note=refused[0].impossible.sentence)
    said = [law.none]
    if predicted is not None:
        said = [told if isinstance(told, str) else told(predicted, measured), _why_too_few(predicted, measured)]
    if refused and refused[0].impossible:
        said.append(f"{len(refused)} of {len(figures)} figures are left out. {refused[0].impossible.sentence}")
    return replace(row, note=" ".join(filter(None, said)))


def _comparable(law: Law[Basis], figures: Sequence[Figure[Basis]], predicted: Interval | None) -> list[float]:
    sizes = [law.size(figure.basis) for figure in figures] if law.size and predicted else []
    known = [size for size in sizes if size is not None and size > 0]
    if predicted is None or len(known) < len(figures):
        return [figure.value for figure in figures]
    return [figure.value * predicted.value / size for figure, size in zip(figures, known, strict=True)]


def judge(predicted: Interval | None, measured: Interval | None) -> Verdict | None:
    """`HIGH` and `LOW` where the intervals lie apart. No `PASS` where either is wider than 30 % to both sides."""
    if predicted is None or measured is None:
        return None
    if measured.n < ENOUGH_FOR_A_MEDIAN:
        return Verdict.TOO_FEW
    if not measured.overlaps(predicted):
        return Verdict.HIGH if measured.low > predicted.high else Verdict.LOW
    return Verdict.PASS if _narrow(predicted) and _narrow(measured) else Verdict.TOO_FEW


def _narrow(interval: Interval) -> bool:
    return interval.high == interval.low or interval.half_width <= WIDEST


def _why_too_few(predicted: Interval, measured: Interval) -> str:
    """Empty where the verdict is another."""
    if judge(predicted, measured) is not Verdict.TOO_FEW:
        return ""
    if measured.n < ENOUGH_FOR_A_MEDIAN:
        return f"A verdict needs {ENOUGH_FOR_A_MEDIAN} turns."
    which = "prediction" if not _narrow(predicted) else "measurement"
    return f"The {which} is too wide to agree with anything."


def middle(intervals: Sequence[Interval]) -> Interval:
    """Of predictions for several turns: the median of each bound. Raises ValueError without any."""
    if not intervals:
        raise ValueError("no intervals")
    ordered = (sorted(bound) for bound in zip(*((i.value, i.low, i.high) for i in intervals), strict=True))
    value, low, high = (_median(bound) for bound in ordered)
    return Interval(value=value, low=low, high=high, n=min(i.n for i in intervals))


def _median(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
