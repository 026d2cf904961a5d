"""Verdicts: two intervals that lie apart, agree, or say too little."""

from collections.abc import Callable, Sequence

import pytest

from profiling.interval import Interval
from profiling.operations import PREFILL
from profiling.plausibility import Cause, Impossible
from profiling.predictions.prediction import Figure, Law, Verdict, compare, judge, middle
from profiling.readings import Reading


def within(low: float, value: float, high: float, n: int = 12) -> Interval:
    return Interval(value=value, low=low, high=high, n=n)


PREDICTED = within(0.28, 0.306, 0.33)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (within(0.29, 0.31, 0.35), Verdict.PASS),
        (within(0.34, 0.38, 0.40), Verdict.HIGH),
        (within(0.20, 0.22, 0.24), Verdict.LOW),
        (within(0.29, 0.31, 0.35, n=5), Verdict.TOO_FEW),
        (within(0.9, 1.0, 1.1, n=5), Verdict.TOO_FEW),
        (within(0.10, 0.31, 0.60), Verdict.TOO_FEW),
    ],
)
def test_the_verdict(measured: Interval, verdict: Verdict) -> None:
    assert judge(PREDICTED, measured) is verdict


def test_a_prediction_wider_than_thirty_percent_to_both_sides_never_passes() -> None:
    measured = within(0.30, 0.31, 0.32)
    assert judge(within(0.215, 0.306, 0.397), measured) is Verdict.PASS
    assert judge(within(0.21, 0.306, 0.40), measured) is Verdict.TOO_FEW
    assert judge(within(0.4, 0.9, 1.4), measured) is Verdict.LOW  # but what lies apart lies apart


def test_no_verdict_where_one_side_is_not_known() -> None:
    assert judge(None, PREDICTED) is None and judge(PREDICTED, None) is None


def test_nothing_is_predicted_exactly_and_measured_exactly() -> None:
    assert judge(Interval.exactly(0.0), within(0, 0, 0)) is Verdict.PASS
    assert judge(Interval.exactly(0.0), within(0.1, 0.2, 0.3)) is Verdict.HIGH


def test_the_middle_of_predictions_is_that_of_each_bound() -> None:
    found = middle([within(1, 2, 9, 7), within(2, 3, 4, 5), within(0, 9, 10, 6)])
    assert (found.low, found.value, found.high, found.n) == (1, 3, 9, 5)


def law(size: Callable[[float], float] | None = float) -> Law[float]:
    def predict(sizes: Sequence[float]) -> Interval:
        return middle([within(0.95 * size, size, 1.05 * size) for size in sizes])

    return Law("prefill", "size", "s", predict, "nothing", size)


def test_turns_of_different_sizes_are_compared_at_the_median_size() -> None:
    sizes = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0]
    row = compare(law(), [Figure(1.02 * size, size) for size in sizes], "told")
    assert row.verdict is Verdict.PASS and row.measured is not None and row.note == "told"
    assert row.measured.value == pytest.approx(1.02 * 5) and row.measured.half_width < 1e-9
    assert compare(law(size=None), [Figure(1.02 * size, size) for size in sizes]).verdict is Verdict.TOO_FEW


def refused() -> Impossible:
    least = within(1.0, 1.0, 1.0)
    return Impossible(Reading(PREFILL, 0.05, {}, least=least), Cause.PREFIX_CACHE, 0.05)


def test_impossible_figures_are_left_out_and_said() -> None:
    figures = [Figure(1.0 + k / 100, 1.0) for k in range(9)] + [Figure(0.05, 1.0, refused()) for _ in range(3)]
    row = compare(law(), figures)
    assert row.measured == Interval.of_median([1.0 + k / 100 for k in range(9)]) and row.verdict is Verdict.PASS
    assert row.note.startswith("3 of 12 figures are left out. Impossible: 50 ms") and "prefix cache" in row.note


def test_where_most_figures_are_impossible_so_is_the_row() -> None:
    row = compare(law(), [Figure(0.05, 1.0, refused())] * 2 + [Figure(1.0, 1.0)])
    assert row.verdict is Verdict.IMPOSSIBLE and row.measured is not None and row.measured.value == 0.05
    assert "95%" in row.note


def test_a_row_without_figures_says_why() -> None:
    row = compare(law(), [])
    assert (row.predicted, row.measured, row.verdict, row.note) == (None, None, None, "nothing")
