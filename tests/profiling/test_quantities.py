"""Quantities as people write them."""

import pytest

from profiling import quantities as q
from profiling.quantities import Dimension, QuantityError


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (q.BANDWIDTH, "905GB/s", 905e9),
        (q.BANDWIDTH, " 89.6 GB/s ", 89.6e9),
        (q.BANDWIDTH, "1.792TB/s", 1792e9),
        (q.BANDWIDTH, "25GiB/s", 25 * 2**30),
        (q.COMPUTE, "31.8TFLOP/s", 31.8e12),
        (q.COMPUTE, "210 TFLOPS", 210e12),
        (q.COMPUTE, "136.8GFLOPs/s", 136.8e9),
        (q.MEMORY, "7.0GB", 7e9),
        (q.MEMORY, "4.32GiB", 4.32 * 2**30),
        (q.MEMORY, "64MiB", 2**26),
        (q.PARAMETERS, "12B", 12e9),
        (q.PARAMETERS, "0.6b", 0.6e9),
        (q.PARAMETERS, "135M", 135e6),
        (q.PARAMETERS, "1.2e10", 1.2e10),
        (q.BITS, "4.5", 4.5),
        (q.BITS, "8 bits", 8),
        (q.TOKENS, "80", 80),
        (q.TOKENS, "80 tokens", 80),
        (q.TOKENS, "1.1k", 1100),
        (q.TOKENS, "0", 0),
        (q.SPEED, "85.6tok/s", 85.6),
        (q.TIME, "320ms", 0.32),
        (q.TIME, "1.12 s", 1.12),
        (q.TIME, "11us", 11e-6),
        (q.MILLISECONDS, "320", 0.32),
        (q.MILLISECONDS, "1.12s", 1.12),
        (q.SECONDS, "2.5", 2.5),
        (q.COUNT, "16", 16),
        (q.BANDWIDTH, ".5GB/s", 0.5e9),
    ],
)
def test_what_is_understood(dimension: Dimension, text: str, value: float) -> None:
    assert dimension.parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("dimension", "text", "words"),
    [
        (q.BANDWIDTH, "905", "has no unit"),
        (q.BANDWIDTH, "905Gb/s", "'Gb/s'"),
        (q.BANDWIDTH, "905GB", "'GB'"),
        (q.BANDWIDTH, "fast", "write a number and a unit"),
        (q.BANDWIDTH, "", "write a number and a unit"),
        (q.BANDWIDTH, "0GB/s", "more than zero"),
        (q.BANDWIDTH, "-5GB/s", "more than zero"),
        (q.BANDWIDTH, "1e999GB/s", "more than zero"),
        (q.BANDWIDTH, "nan GB/s", "write a number and a unit"),
        (q.BANDWIDTH, "1e15TB/s", "no real one"),
        (q.BANDWIDTH, "1e-30GB/s", "no real one"),
        (q.MEMORY, "0,5GB", "',5GB'"),
        (q.TIME, "320", "has no unit"),
        (q.TIME, "-1ms", "zero or more"),
        (q.TIME, "3 hours", "'hours'"),
        (q.TOKENS, "1.5", "must be whole"),
        (q.COUNT, "0", "more than zero"),
        (q.PARAMETERS, "12G", "K, M, B, T"),
        (q.SPEED, "9" * 500, "…"),
        (q.BITS, "٤", "write a number"),
    ],
)
def test_what_is_not_understood_is_a_sentence_with_an_example(dimension: Dimension, text: str, words: str) -> None:
    with pytest.raises(QuantityError) as refused:
        dimension.parse(text)
    said = str(refused.value)
    assert words in said and dimension.example in said and said.endswith(".") and len(said) < 250


@pytest.mark.parametrize(
    ("dimension", "value", "shown"),
    [
        (q.BANDWIDTH, 905e9, "905 GB/s"),
        (q.BANDWIDTH, 1792e9, "1,792 GB/s"),
        (q.BANDWIDTH, 25.7e9, "25.7 GB/s"),
        (q.BANDWIDTH, 12.0, "12.0 B/s"),
        (q.COMPUTE, 209.5e12, "210 TFLOP/s"),
        (q.MEMORY, 999.6e6, "1.00 GB"),
        (q.TIME, 0.306, "306 ms"),
        (q.TIME, 0.0, "0 s"),
        (q.TIME, 11.68e-3, "11.7 ms"),
        (q.PARAMETERS, 12e9, "12.0B"),
        (q.COUNT, 2088.0, "2,088"),
        (q.SPEED, 0.612, "0.612 tok/s"),
        (q.SPEED, 0.09996, "0.100 tok/s"),
        (q.SHARE, 0.662, "66.2 %"),
    ],
)
def test_what_is_shown(dimension: Dimension, value: float, shown: str) -> None:
    assert dimension.shown(value) == shown


@pytest.mark.parametrize("dimension", [q.BANDWIDTH, q.COMPUTE, q.MEMORY, q.PARAMETERS, q.TIME])
def test_what_is_shown_is_understood_again(dimension: Dimension) -> None:
    for exponent in range(1, 15):
        value = 4.56 * 10.0 ** (exponent - (9 if dimension is q.TIME else 0))
        assert dimension.parse(dimension.shown(value).replace(",", "")) == pytest.approx(value, rel=0.005)
