"""The spread of measurements, which a few disturbed ones do not move."""

import numpy as np
import pytest

from profiling.spread import of_median, spread


def test_of_normal_values_it_is_their_standard_deviation() -> None:
    values = np.random.default_rng(0).normal(3, 0.5, 20_000)
    assert spread(values) == pytest.approx(0.5, rel=0.03)
    values[:1000] = 1e6
    assert spread(values) == pytest.approx(0.5, rel=0.1)


def test_a_median_of_many_is_surer_than_one() -> None:
    drawn = np.random.default_rng(0).normal(0, 1, (4000, 25))
    assert of_median(25) == pytest.approx(float(np.std(np.median(drawn, axis=1))), rel=0.05)
    assert of_median(1) == 1
