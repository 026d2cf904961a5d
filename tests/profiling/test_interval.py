"""Intervals: the median's hold with the confidence that they claim, whatever the values' distribution is."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from profiling.interval import CONFIDENCE, ENOUGH_FOR_A_MEDIAN, Interval

TRIALS = 300


def exact_coverage(n: int) -> float:
    """The binomial probability that the bounds, so many values from either end, hold the median."""
    interval = Interval.of_median(list(range(n)))
    below = int(interval.low)
    return 1 - 2 * sum(math.comb(n, k) for k in range(below + 1)) / 2**n


@pytest.mark.parametrize("n", range(ENOUGH_FOR_A_MEDIAN, 41))
def test_the_medians_interval_claims_95_percent_and_no_wider_one_is_given(n: int) -> None:
    interval = Interval.of_median(list(range(n)))
    narrower = 1 - 2 * sum(math.comb(n, k) for k in range(int(interval.low) + 2)) / 2**n
    assert exact_coverage(n) >= CONFIDENCE > narrower
    assert interval.low + interval.high == n - 1 and interval.value == (n - 1) / 2 and interval.n == n


@pytest.mark.parametrize("distribution", ["normal", "lognormal", "cauchy", "uniform"])
def test_the_medians_interval_holds_the_true_median_in_95_percent_of_simulations(distribution: str) -> None:
    """6 to 40 values of distributions with long tails, too, whose median is known."""
    rng = np.random.default_rng(5)
    draw = {
        "normal": (rng.standard_normal, 0.0),
        "lognormal": (lambda n: rng.lognormal(0.0, 1.5, n), 1.0),
        "cauchy": (rng.standard_cauchy, 0.0),
        "uniform": (rng.random, 0.5),
    }
    values, median = draw[distribution]
    held = [
        interval.low <= median <= interval.high
        for n in range(6, 41)
        for interval in [Interval.of_median(list(map(float, values(n)))) for _ in range(TRIALS // 10)]
    ]
    assert sum(held) / len(held) >= CONFIDENCE - 0.01, len(held)


def test_the_interval_of_very_many_values_is_about_as_wide_as_the_normal_distribution_says() -> None:
    for n in (999, 1000, 1001, 20_000):
        interval = Interval.of_median(list(range(n)))
        assert interval.high - interval.low == pytest.approx(1.96 * math.sqrt(n), abs=4)
        assert interval.low <= interval.value <= interval.high


@pytest.mark.parametrize("values", [[7.0], [1.0, 3.0], [1.0, 2.0, 9.0], [5.0, 1.0, 3.0, 2.0, 4.0]])
def test_few_values_give_the_smallest_and_the_largest(values: list[float]) -> None:
    interval = Interval.of_median(values)
    assert (interval.low, interval.high, interval.n) == (min(values), max(values), len(values))


def test_no_value_has_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        Interval.of_median([])


def test_the_order_of_the_values_does_not_matter_and_they_are_left_as_they_are() -> None:
    values = [3.0, 1.0, 2.0, 9.0, 4.0, 7.0, 5.0]
    assert Interval.of_median(values) == Interval.of_median(sorted(values)) and values[0] == 3.0


def test_draws_give_their_quantiles_and_the_value_lies_within() -> None:
    interval = Interval.of_draws(500.0, list(map(float, range(1001))), 12)
    assert (interval.low, interval.high) == pytest.approx((25, 975)) and interval.n == 12
    beside = Interval.of_draws(-3.0, [1.0, 2.0, 3.0], 3)
    assert beside.low == -3.0 and beside.high == pytest.approx(2.95)


def test_the_half_width_is_a_share_of_the_value() -> None:
    assert Interval(value=10, low=8, high=12, n=6).half_width == pytest.approx(0.2)
    assert Interval(value=-10, low=-12, high=-8, n=6).half_width == pytest.approx(0.2)
    assert Interval(value=0, low=-1, high=1, n=6).half_width == math.inf
    assert Interval.exactly(5).half_width == 0 and Interval.exactly(5).n == 0


def test_scaling_keeps_the_bounds_in_order() -> None:
    interval = Interval(value=2, low=1, high=4, n=6)
    assert interval.scaled(3) == Interval(value=6, low=3, high=12, n=6)
    assert interval.scaled(-1) == Interval(value=-2, low=-4, high=-1, n=6)


def test_intervals_overlap_when_they_share_a_value() -> None:
    one = Interval(value=2, low=1, high=3, n=6)
    assert one.overlaps(Interval(value=4, low=3, high=5, n=6)) and one.overlaps(one)
    assert not one.overlaps(Interval(value=4, low=3.01, high=5, n=6))


def test_an_interval_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Interval.exactly(1).value = 2  # type: ignore[misc]
