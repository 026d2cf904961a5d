"""The law of first audio from streamed phrases."""

import pytest

from profiling.fit import theil_sen


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    found = theil_sen(points)
    return found.intercept.value, found.slope.value


def test_a_line_is_found() -> None:
    assert line([(x, 0.23 + 0.076 * x) for x in (2, 2, 3, 4, 5)]) == pytest.approx((0.23, 0.076))


def test_one_disturbed_phrase_does_not_move_it() -> None:
    points = [(x, 0.23 + 0.076 * x) for x in (2, 3, 4, 5, 2, 3, 4, 2, 3)]
    assert line([*points, (5, 3.0)]) == pytest.approx((0.23, 0.076), rel=0.05)
