"""Robust lines: planted figures are found again within their bounds, whatever single measurements do."""

import numpy as np
import pytest
from numpy.typing import NDArray

from profiling.fit import fit, theil_sen

INTERCEPT, SLOPE, OTHER = 0.23, 0.475, 0.2
LINES, FITS = 200, 40  # seeds
Values = NDArray[np.float64]


def disturbed(rng: np.random.Generator, values: Values) -> list[float]:
    """5 % of noise, and a tenth of the measurements up to three times too long."""
    noisy = values * (1 + 0.05 * rng.standard_normal(len(values)))
    late = rng.choice(len(values), size=len(values) // 10, replace=False)
    noisy[late] *= rng.uniform(1.5, 3.0, size=len(late))
    return list(map(float, noisy))


def test_a_planted_line_lies_within_its_bounds_in_93_percent_of_seeds() -> None:
    held = np.zeros(2)
    for seed in range(LINES):
        rng = np.random.default_rng(seed)
        lengths_s = np.linspace(1, 6, 12)
        line = theil_sen(list(zip(lengths_s, disturbed(rng, INTERCEPT + SLOPE * lengths_s), strict=True)), seed=seed)
        held += line.intercept.low <= INTERCEPT <= line.intercept.high, line.slope.low <= SLOPE <= line.slope.high
    assert (held / LINES >= 0.93).all(), held


def test_planted_coefficients_of_two_units_lie_within_their_bounds() -> None:
    held = np.zeros(3)
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        a, b = rng.uniform(1, 6, 24), rng.uniform(0, 3, 24)
        found = fit(
            [{"a": x, "b": y} for x, y in zip(a, b, strict=True)],
            disturbed(rng, INTERCEPT + SLOPE * a + OTHER * b),
            seed=seed,
        )
        intervals = (found.constant, found.coefficients["a"], found.coefficients["b"])
        truths = (INTERCEPT, SLOPE, OTHER)
        held += [one.low <= truth <= one.high for one, truth in zip(intervals, truths, strict=True)]
    assert (held / FITS >= 0.9).all(), held


def test_without_noise_the_line_is_exact_and_its_bounds_are_it() -> None:
    line = theil_sen([(x, 2 + 3 * x) for x in range(8)])
    assert (line.intercept.value, line.slope.value, line.at(10)) == pytest.approx((2, 3, 32))
    assert (line.slope.low, line.slope.high) == pytest.approx((3, 3)) and line.slope.n == 8
    found = fit([{"x": x} for x in range(8)], [2.0 + 3 * x for x in range(8)])
    assert found.at({"x": 10}) == pytest.approx(32) and found.residual_spread == pytest.approx(0, abs=1e-9)


def test_a_third_of_the_points_far_off_does_not_move_the_line() -> None:
    points = [(float(x), 2.0 + 3 * x) for x in range(12)]
    for spoilt in (1, 5, 8):
        points[spoilt] = (points[spoilt][0], 500.0)
    assert theil_sen(points).slope.value == pytest.approx(3, abs=0.01)
    found = fit([{"x": x} for x, _ in points[:7]] * 3, [y for _, y in points[:7]] * 3)
    assert found.at({"x": 0}) == pytest.approx(2, abs=3)


def test_a_unit_that_does_not_vary_is_part_of_the_constant() -> None:
    found = fit([{"x": x, "same": 4.0} for x in range(1, 9)], [10 + 2.0 * x for x in range(1, 9)])
    assert found.names == ("x",) and set(found.coefficients) == {"x"}
    assert found.constant.value == pytest.approx(10) and found.at({"x": 3, "same": 4.0}) == pytest.approx(16)


def test_without_a_unit_that_varies_the_law_is_the_middle_of_the_values() -> None:
    found = fit([{}] * 7, [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 9.0])
    assert found.names == () and found.at({}) == pytest.approx(1.0, abs=0.05)
    assert found.interval_at({}).low <= 1.0 <= found.interval_at({}).high


def test_a_unit_that_is_not_told_counts_as_none() -> None:
    found = fit([{"x": 1.0}, {}, {"x": 3.0}, {"x": 2.0}, {}], [3.0, 1.0, 7.0, 5.0, 1.0])
    assert found.at({}) == pytest.approx(1) and found.at({"x": 2}) == pytest.approx(5)


def test_units_that_grow_together_cannot_be_told_apart_but_their_sum_can() -> None:
    found = fit([{"a": x, "b": 2 * x} for x in range(1, 11)], [5 + 6.0 * x for x in range(1, 11)])
    assert found.at({"a": 4, "b": 8}) == pytest.approx(29)
    assert found.interval_at({"a": 4, "b": 8}).high == pytest.approx(29, rel=0.01)


def test_the_law_is_surer_among_the_measurements_than_far_beyond_them() -> None:
    rng = np.random.default_rng(3)
    xs = np.linspace(1, 6, 18)
    found = fit([{"x": x} for x in xs], disturbed(rng, INTERCEPT + SLOPE * xs))
    near, far = found.interval_at({"x": 3.5}), found.interval_at({"x": 60})
    assert near.low <= found.at({"x": 3.5}) <= near.high and near.n == 18
    assert far.high - far.low > 5 * (near.high - near.low)


def test_the_same_seed_gives_the_same_bounds() -> None:
    points = [(float(x), x + (x % 3) / 10) for x in range(9)]
    assert theil_sen(points, seed=4) == theil_sen(points, seed=4)
    assert theil_sen(points, seed=4).slope != theil_sen(points, seed=5).slope


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)]])
def test_points_of_one_x_have_no_line(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="all points have the same x"):
        theil_sen(points)


def test_two_points_are_a_line() -> None:
    assert theil_sen([(0.0, 1.0), (2.0, 5.0)]).at(3) == pytest.approx(7)


def test_nothing_measured_has_no_fit() -> None:
    with pytest.raises(ValueError, match="no values"):
        fit([], [])
