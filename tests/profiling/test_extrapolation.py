"""Laws of small models on planted data: recovered at full size, refused where they say nothing."""

import numpy as np
import pytest

from profiling.extrapolation import TOLERANCE, Asked, Law, Point, law_of, predicted

FIXED_S, PER_LAYER_S = 0.007, 0.0105


def noisy(value_s: float, seed: int, count: int = 6, spread: float = 0.02) -> tuple[float, ...]:
    return tuple(value_s * (1 + spread * np.random.default_rng(seed).standard_normal(count)))


def layers(*counts: int, seed: int = 0) -> list[Point]:
    return [Point({"layers": n}, noisy(FIXED_S + PER_LAYER_S * n, seed + n), 1e8 * n) for n in counts]


def law(points: list[Point]) -> Law:
    found = law_of(points)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_two_small_sizes_predict_the_full_one(seed: int) -> None:
    at_24 = predicted([Asked(law(layers(1, 2, seed=seed)), {"layers": 24})])
    assert at_24 is not None
    assert at_24.value == pytest.approx(FIXED_S + 24 * PER_LAYER_S, rel=TOLERANCE)
    assert at_24.low <= FIXED_S + 24 * PER_LAYER_S <= at_24.high


def test_one_burst_of_something_else_does_not_move_it() -> None:
    one, two = layers(1, 2)
    disturbed = Point(two.units, (*two.times_s[:-1], 10 * two.times_s[0]))
    at_24 = predicted([Asked(law([one, disturbed]), {"layers": 24})])
    assert at_24 is not None and at_24.value == pytest.approx(FIXED_S + 24 * PER_LAYER_S, rel=TOLERANCE)


def test_two_units_each_get_their_own_coefficient() -> None:
    points = [
        Point({"layers": n, "head": h}, noisy(0.001 + 0.006 * n + 0.002 * h, n + 10 * h, spread=0.001))
        for n, h in ((2, 1), (3, 1), (2, 4))
    ]
    assert law(points).at_s({"layers": 48, "head": 30}) == pytest.approx(0.001 + 0.288 + 0.06, rel=TOLERANCE)


def test_fewer_sizes_than_units_give_no_law() -> None:
    assert law_of([Point({"layers": 2, "head": 1}, (0.1,)), Point({"layers": 3, "head": 2}, (0.2,))]) is None
    assert law_of([Point({"layers": 2}, ())]) is None


def test_what_never_varied_is_not_extrapolated() -> None:
    constant = law([Point({"work": 2.0}, (0.1, 0.11)), Point({"work": 2.0}, (0.1,))])
    assert predicted([Asked(constant, {"work": 2.0})]) is not None
    assert predicted([Asked(constant, {"work": 3.0})]) is None
    assert predicted([Asked(law(layers(1, 2)), {"layers": 24, "forwards": 9})]) is None


def test_a_line_that_falls_below_zero_says_nothing() -> None:
    falling = law([Point({"layers": 1}, (0.2,) * 3), Point({"layers": 2}, (0.1,) * 3)])
    assert predicted([Asked(falling, {"layers": 24})]) is None


def test_a_stage_is_the_sum_of_what_it_asks() -> None:
    encoder, decoder = law(layers(1, 2)), law([Point({}, (0.05, 0.05, 0.05))])
    whole = predicted([Asked(encoder, {"layers": 24}, slower=1.2, times=4), Asked(decoder, {}, times=4)], stated_s=0.5)
    assert whole is not None
    assert whole.value == pytest.approx(0.5 + 4 * 1.2 * encoder.at_s({"layers": 24}) + 4 * 0.05)
    assert predicted([]) is None


def test_visits_to_one_size_are_one_point() -> None:
    points = [Point({"layers": 1}, (1.0, 1.0)), Point({"layers": 2}, (2.0, 2.0)), Point({"layers": 1}, (1.4, 1.4))]
    assert sorted(len(point.times_s) for point in law(points).points) == [2, 4]


def test_sizes_off_a_straight_line_are_seen_beyond_their_spread() -> None:
    bent = [Point({"layers": n}, (t, t * 1.01, t * 0.99)) for n, t in ((1, 0.01), (2, 0.02), (3, 0.06))]
    assert law(bent).farthest_off_line > TOLERANCE
    assert law(layers(1, 2, 3)).farthest_off_line < TOLERANCE
    wide = [Point({"layers": n}, (0.5 * t, t, 1.5 * t)) for n, t in ((1, 0.01), (2, 0.02), (3, 0.03))]
    assert law(wide).farthest_off_line == 0
