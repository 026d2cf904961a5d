"""Concurrency: planted ridges are found, and the form of the reference's own table comes out."""

import numpy as np
import pytest

from profiling.interval import Interval
from profiling.studies.concurrency import (
    Decoding,
    concurrency_finding,
    half_speed,
    measured_ridge,
    predicted_ridge,
)

# Total tok/s of 1, 4 and 16 requests on a GPU of 250 GB/s and 31.8 TFLOP/s, with the bytes of the loaded weights.
GIB = 1 << 30
BF16_17B = {1: 68.8, 4: 264.0, 16: 1007.0}
FP8_17B = {1: 105.7, 4: 405.0, 16: 1544.0}


def steps(total: dict[int, float]) -> dict[int, list[float]]:
    return {streams: [streams / speed] * 3 for streams, speed in total.items()}


def planted(ridge: float, counts: tuple[int, ...], seed: int) -> dict[int, list[float]]:
    random = np.random.default_rng(seed)
    return {n: [0.01 * max(1, n / ridge) * float(random.normal(1, 0.03)) for _ in range(12)] for n in counts}


@pytest.mark.parametrize(("total", "kept"), [(BF16_17B, "91 %"), (FP8_17B, "91 %"), ({1: 52.7, 16: 775}, "92 %")])
def test_the_speed_that_16_requests_keep_in_the_reference(total: dict[int, float], kept: str) -> None:
    finding = concurrency_finding("qwen", Decoding(3.22 * GIB, 1.72e9), steps(total), [250e9], [31.8e12])
    assert finding.rows[-1][0] == "16" and finding.rows[-1][4] == kept
    assert "not reached" in finding.sentence


@pytest.mark.parametrize(("bits", "ridge"), [(16, 127.2), (8, 63.6)])
def test_the_ridges_of_the_reference(bits: int, ridge: float) -> None:
    found = predicted_ridge(Decoding(1e9 * bits / 8, 1e9), Interval.exactly(250e9), Interval.exactly(31.8e12))
    assert found.value == pytest.approx(ridge)


def test_the_law_of_the_table() -> None:
    work = Decoding(1e9, 1e9)
    finding = concurrency_finding("m", work, planted(8, (1, 2, 4, 8, 16), 0), [100e9], [1.6e12])
    assert [row[5] for row in finding.rows] == ["100", "200", "400", "800", "800"]
    assert [row[6] for row in finding.rows] == ["bandwidth"] * 4 + ["compute"]
    assert "the law says 8.0" in finding.sentence and "16 streams keep each 50 %" in finding.sentence


def test_a_planted_ridge_is_within_its_bounds() -> None:
    found = [measured_ridge(planted(6.5, (1, 2, 4, 8, 16, 32), seed)).streams for seed in range(10)]
    assert all(ridge is not None and ridge.half_width < 0.1 for ridge in found)
    assert sum(ridge is not None and ridge.low <= 6.5 <= ridge.high for ridge in found) >= 9


def test_steps_that_no_two_lines_describe_are_told() -> None:
    odd = {1: [0.0129], 2: [0.0273], 4: [0.0398], 8: [0.0607]}
    finding = concurrency_finding("m", Decoding(1e9, 1e9), odd, [1e9], [1e9])
    assert measured_ridge(odd).misfit > 0.2 and "2 streams take 2.1 times one's step" in finding.sentence
    assert measured_ridge(planted(6.5, (1, 2, 4, 8, 16, 32), 0)).misfit < 0.1


def test_a_ridge_beyond_what_was_measured_is_none() -> None:
    assert measured_ridge({n: [0.01] * 4 for n in (1, 2, 4)}).streams is None
    assert half_speed({n: [0.01] * 4 for n in (1, 2, 4)}) is None


def test_half_of_the_speed_is_left_at_twice_the_ridge() -> None:
    exact = {n: [0.01 * max(1, n / 4)] for n in (1, 2, 4, 8, 16)}
    assert half_speed(exact) == pytest.approx(8)
    assert half_speed({n: [0.01 * max(1, n / 3)] for n in (1, 2, 4, 8)}) == pytest.approx(6)


def test_one_stream_must_be_among_them() -> None:
    with pytest.raises(ValueError, match="one stream"):
        concurrency_finding("m", Decoding(1e9, 1e9), {2: [0.01]}, [1e9], [1e9])
