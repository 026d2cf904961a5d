"""Products of a matrix with one vector and with several, by one thread: where memory decides, where arithmetic does."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series

_ENOUGH = 3  # sizes beyond the cache
_OFF_THE_LAW = 1.5  # times what the law says
_FASTER_IN_CACHE = 1.15  # times what memory gives
_DRAWS = 400
_FLOAT32_BYTES = 4
_FLOPS = 2  # of one weight and one row: a product and a sum


@dataclass(frozen=True)
class Product:
    """A matrix of `weight_bytes` of float32, multiplied once with so many rows."""

    weight_bytes: int
    rows: int
    took_s: float

    @property
    def flops(self) -> float:
        return _FLOPS * self.weight_bytes / _FLOAT32_BYTES * self.rows


@dataclass(frozen=True)
class _Row:
    """All products of one size and number of rows."""

    weight_bytes: int
    rows: int
    took_s: Interval
    flops: float

    @property
    def name(self) -> str:
        return f"{self.weight_bytes / (1 << 20):.0f} MiB, {self.rows} {'row' if self.rows == 1 else 'rows'}"

    @property
    def bytes_per_s(self) -> float:
        return self.weight_bytes / self.took_s.value

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.took_s.value


def bandwidth_finding(products: Sequence[Product], cache_bytes: int, kernel: str) -> Finding:
    """From matrices of several sizes times one row, and one of them times several numbers of rows.

    `cache_bytes` is the last cache. The law: a product takes the longer of reading the matrix, at the bandwidth that
    the slope over sizes beyond the cache tells, and computing, at the fastest rate among the products. Raises
    ValueError with fewer than three sizes beyond the cache, and where the time does not grow with the size.
    """
    rows = _rows(products)
    slope = memory_bandwidth(products, cache_bytes)
    peak = max(row.flops_per_s for row in rows)

    vectors = [row for row in rows if row.rows == 1]
    batches = [row for row in rows if row.weight_bytes == _batched(rows)]
    return Finding(
        title="Matrix products of float32, one thread",
        columns=("matrix, rows", "time", "GB/s", "GFLOP/s", "ms a row", "times the law", "n"),
        rows=tuple(
            (
                row.name,
                f"{row.took_s.value * 1e3:.3f} ms",
                f"{row.bytes_per_s / 1e9:.1f}",
                f"{row.flops_per_s / 1e9:.1f}",
                f"{row.took_s.value * 1e3 / row.rows:.3f}",
                f"{row.took_s.value / _law_s(row.weight_bytes, row.rows, slope.value, peak):.2f}",
                str(row.took_s.n),
            )
            for row in [*vectors, *(row for row in batches if row.rows > 1)]
        ),
        plot=Plot(
            title=f"{batches[0].weight_bytes >> 20} MiB of weights times several rows, one thread",
            x_label="rows",
            y_label="time, ms",
            series=(
                Series(
                    "measured",
                    [row.rows for row in batches],
                    [row.took_s.value * 1e3 for row in batches],
                    [row.took_s.low * 1e3 for row in batches],
                    [row.took_s.high * 1e3 for row in batches],
                ),
                Series("the slower of reading and computing", *_law_line(batches, slope.value, peak), style="line"),
            ),
            log_x=True,
            log_y=True,
        ),
        sentence=" ".join(
            (
                _of_memory(slope, vectors, cache_bytes),
                _of_cache(slope, vectors, cache_bytes),
                _of_batches(
                    [(row, row.took_s.value / _law_s(row.weight_bytes, row.rows, slope.value, peak)) for row in batches]
                ),
            )
        ),
        notes=(f"Computed by {kernel}.",),
        data={
            "products": [asdict(product) for product in products],
            "cache_bytes": cache_bytes,
            "bytes_per_s": slope.model_dump(),
        },
    )


def memory_bandwidth(products: Sequence[Product], cache_bytes: int) -> Interval:
    """Bytes per second from the least-squares slope of the median time over the bytes of those matrices times one row
    that are larger than the cache; the bounds by drawing each size's products anew. Raises ValueError as above."""
    sizes: dict[int, list[float]] = {}
    for product in products:
        if product.rows == 1 and product.weight_bytes > cache_bytes:
            sizes.setdefault(product.weight_bytes, []).append(product.took_s)
    if len(sizes) < _ENOUGH:
        raise ValueError(f"{len(sizes)} sizes beyond a cache of {cache_bytes} bytes: too few for a slope")
    value, random = _rate(sizes), np.random.default_rng(0)
    if math.isinf(value):
        raise ValueError("the time to read did not grow with the bytes")
    drawn = [
        _rate({size: list(map(float, random.choice(times, len(times)))) for size, times in sizes.items()})
        for _ in range(_DRAWS)
    ]
    return Interval.of_draws(value, drawn, sum(map(len, sizes.values())))


def _rate(sizes: dict[int, list[float]]) -> float:
    """Bytes over seconds, by least squares; infinite where the time does not grow."""
    medians = [statistics.median(times) for times in sizes.values()]
    slope = statistics.linear_regression([float(size) for size in sizes], medians).slope
    return 1 / slope if slope > 0 else float("inf")


def _law_s(weight_bytes: float, rows: float, bytes_per_s: float, flops_per_s: float) -> float:
    return max(weight_bytes / bytes_per_s, _FLOPS * weight_bytes / _FLOAT32_BYTES * rows / flops_per_s)


def _law_line(batches: Sequence[_Row], bytes_per_s: float, flops_per_s: float) -> tuple[list[float], list[float]]:
    """Rows and ms."""
    rows = [float(count) for count in np.geomspace(batches[0].rows, batches[-1].rows, 64)]
    return rows, [_law_s(batches[0].weight_bytes, count, bytes_per_s, flops_per_s) * 1e3 for count in rows]


def _rows(products: Sequence[Product]) -> list[_Row]:
    found: dict[tuple[int, int], list[Product]] = {}
    for product in products:
        found.setdefault((product.weight_bytes, product.rows), []).append(product)
    return [
        _Row(size, rows, Interval.of_median([product.took_s for product in those]), those[0].flops)
        for (size, rows), those in sorted(found.items())
    ]


def _batched(rows: Sequence[_Row]) -> int:
    """The size that was multiplied with most numbers of rows."""
    sizes = [row.weight_bytes for row in rows]
    return max(sizes, key=sizes.count)


def _of_memory(slope: Interval, vectors: Sequence[_Row], cache_bytes: int) -> str:
    beyond = [row.weight_bytes >> 20 for row in vectors if row.weight_bytes > cache_bytes]
    return (
        f"One thread reads memory at {slope.value / 1e9:.1f} GB/s ({slope.low / 1e9:.1f} to {slope.high / 1e9:.1f}), "
        f"by the slope over {beyond[0]} to {beyond[-1]} MiB."
    )


def _of_cache(slope: Interval, vectors: Sequence[_Row], cache_bytes: int) -> str:
    helped = [
        row for row in vectors if row.weight_bytes <= cache_bytes and row.bytes_per_s > _FASTER_IN_CACHE * slope.high
    ]
    if not helped:
        return f"No matrix that fits the cache of {cache_bytes >> 20} MiB is read much faster than that."
    best = max(helped, key=lambda row: row.bytes_per_s)
    return (
        f"The cache helps up to {helped[-1].weight_bytes >> 20} MiB, most at {best.weight_bytes >> 20} MiB "
        f"({best.bytes_per_s / 1e9:.1f} GB/s)."
    )


def _of_batches(batches: Sequence[tuple[_Row, float]]) -> str:
    one, many = batches[0][0], batches[-1][0]
    shared = (one.took_s.value / one.rows) / (many.took_s.value / many.rows)
    cheaper = f"each of {many.rows} rows costs {shared:.1f} times less than a single one"
    off = [(row.rows, share) for row, share in batches if share > _OFF_THE_LAW]
    if not off:
        return f"Small batches follow the law: {cheaper}."
    worst, (first, last) = max(share for _, share in off), (off[0][0], off[-1][0])
    which = f"{first} rows take" if first == last else f"{first} to {last} rows take up to"
    few = batches[1][0]
    return (
        f"Small batches do not follow the law: {which} {worst:.1f} times what it says, and {few.rows} rows "
        f"{few.took_s.value / one.took_s.value:.1f} times as long as one, which has a kernel of its own; {cheaper}."
    )
