"""Bandwidth: the reference's own figures come out of its own times."""

from collections.abc import Mapping

import numpy as np
import pytest

from profiling.studies.bandwidth import Product, bandwidth_finding, memory_bandwidth

MIB = 1 << 20
SIZES = {4: 0.152, 16: 0.645, 36: 1.507, 64: 2.601, 100: 4.112}  # MiB and ms
BATCHES = {1: 2.568, 2: 10.65, 8: 11.85, 32: 18.36, 128: 46.05, 512: 125.61}  # rows and ms, 64 MiB
OVER = 30 * MIB


def timed(sizes: Mapping[int, float], batches: Mapping[int, float]) -> list[Product]:
    vectors = [Product(mib * MIB, 1, ms / 1e3) for mib, ms in sizes.items()]
    return vectors + [Product(64 * MIB, rows, ms / 1e3) for rows, ms in batches.items()]


def rows(products: list[Product]) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in bandwidth_finding(products, OVER, "numpy").rows}


def test_the_slope_of_the_reference() -> None:
    assert memory_bandwidth(timed(SIZES, {}), OVER).value / 1e9 == pytest.approx(25.7, abs=0.05)


def test_the_effective_bandwidths_of_the_reference() -> None:
    """25.1 to 27.5 GB/s, of times that are published with three digits."""
    unrounded = SIZES | {4: 0.1525, 36: 1.5069}
    found = rows(timed(unrounded, {2: BATCHES[2]}))
    rates = [float(found[f"{mib} MiB, 1 row"][1]) for mib in SIZES]
    assert (min(rates), max(rates)) == (25.1, 27.5)


def test_the_batches_of_the_reference() -> None:
    found = rows(timed({mib: ms for mib, ms in SIZES.items() if mib != 64} | {144: 5.90}, BATCHES))
    lines = {rows: found[f"64 MiB, {rows} {'row' if rows == 1 else 'rows'}"] for rows in BATCHES}
    assert [line[2] for line in lines.values()] == ["13.1", "6.3", "22.7", "58.5", "93.3", "136.8"]
    assert (lines[1][3], lines[512][3]) == ("2.568", "0.245")


def test_the_sentence_on_the_reference() -> None:
    products = timed({mib: ms for mib, ms in SIZES.items() if mib != 64} | {144: 5.90}, BATCHES)
    sentence = bandwidth_finding(products, OVER, "numpy").sentence
    assert "over 36 to 144 MiB" in sentence and "No matrix that fits the cache of 30 MiB" in sentence
    assert "2 to 32 rows take up to 4.5 times" in sentence and "2 rows 4.1 times as long as one" in sentence
    assert "10.5 times less" in sentence


def test_a_cache_that_helps_is_seen_and_leaves_the_slope_alone() -> None:
    random = np.random.default_rng(1)
    products = [
        Product(mib * MIB, 1, mib * MIB / (80e9 if mib < 30 else 20e9) * float(random.normal(1, 0.01)))
        for mib in SIZES
        for _ in range(9)
    ] + [Product(64 * MIB, 8, 64 * MIB / 20e9) for _ in range(9)]
    finding = bandwidth_finding(products, 32 * MIB, "numpy")
    assert "cache helps up to 16 MiB" in finding.sentence and "follow the law" in finding.sentence
    bandwidth = memory_bandwidth(products, 32 * MIB)
    assert bandwidth.low <= 20e9 <= bandwidth.high and bandwidth.half_width < 0.05


def test_too_few_sizes_beyond_the_cache() -> None:
    with pytest.raises(ValueError, match="2 sizes beyond"):
        memory_bandwidth(timed(SIZES, {}), 40 * MIB)


def test_times_that_do_not_grow_give_no_bandwidth() -> None:
    with pytest.raises(ValueError, match="did not grow"):
        memory_bandwidth(timed({36: 3.0, 64: 2.0, 100: 1.0}, {}), OVER)
