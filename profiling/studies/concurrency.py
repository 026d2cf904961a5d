"""Several replies at once: what each keeps of its speed, and from how many on arithmetic is the bound."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiling.interval import Interval
from profiling.roofline import READ, Term, ridge_batch
from profiling.studies.finding import Finding, Plot, Series
from profiling.symptoms import Symptom, batch_symptom
from profiling.workload import Work

_COMPUTE = "products"
_DRAWS = 200
_BEYOND = 1.5  # times a ridge must be measured, for steps may grow a little before it
_STEPS_OF_A_DOUBLING = 20  # of the number of streams, between two ridges that are tried
_MISFIT = 0.2  # from which on two lines are no description
_FLOPS = 2  # of one weight and one row


@dataclass(frozen=True)
class Decoding:
    """What one step of all streams reads and computes: `weight_bytes` of the matrices, `parameters` in them."""

    weight_bytes: float
    parameters: float

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.weight_bytes / self.parameters

    def term(self, streams: float) -> Term:
        return Term(Work(self.weight_bytes, _FLOPS * self.parameters * streams), _COMPUTE)


@dataclass(frozen=True)
class MeasuredRidge:
    """From how many streams on a step's time grows with them; None where none that were measured reached it. `misfit`
    is by how much, as a share, the step that is farthest from the two lines is off them."""

    streams: Interval | None
    misfit: float


def concurrency_finding(
    model: str,
    work: Decoding,
    steps_s: Mapping[int, Sequence[float]],
    bytes_per_s: Sequence[float],
    flops_per_s: Sequence[float],
    notes: Sequence[str] = (),
) -> Finding:
    """`steps_s`: by the number of streams, how long steps took that gave each of them a token, one stream among them.

    The law: a step takes the longer of reading the weights, once for all, and computing, for each. `bytes_per_s` and
    `flops_per_s` were measured meanwhile. Raises ValueError without steps of one stream.
    """
    if 1 not in steps_s:
        raise ValueError("no steps of one stream")
    read, products = Interval.of_median(bytes_per_s), Interval.of_median(flops_per_s)
    ceilings = {READ: read.value, _COMPUTE: products.value}
    counts = sorted(steps_s)
    took = {streams: Interval.of_median(steps_s[streams]) for streams in counts}
    law = {streams: work.term(streams).seconds(ceilings) for streams in counts}
    predicted = predicted_ridge(work, read, products)
    return Finding(
        title=f"Streams of {model} at once",
        columns=("streams", "a step", "tok/s", "each", "kept", "law, tok/s", "bound by", "n"),
        rows=tuple(
            (
                str(streams),
                f"{took[streams].value * 1e3:.1f} ms",
                f"{streams / took[streams].value:.0f}",
                f"{1 / took[streams].value:.1f}",
                f"{100 * took[1].value / took[streams].value:.0f} %",
                f"{streams / law[streams]:.0f}",
                work.term(streams).bound(ceilings),
                str(took[streams].n),
            )
            for streams in counts
        ),
        plot=Plot(
            title=f"Streams of {model} at once",
            x_label="streams",
            y_label="tokens per second, all streams",
            series=(
                Series(
                    "measured",
                    counts,
                    [n / took[n].value for n in counts],
                    [n / took[n].high for n in counts],
                    [n / took[n].low for n in counts],
                ),
                Series("the slower of reading and computing", *_law_line(work, ceilings, counts[-1]), style="line"),
            ),
            log_x=True,
        ),
        sentence=_sentence(predicted, measured_ridge(steps_s), half_speed(steps_s), took),
        notes=tuple(notes),
        data={
            "steps_s": {str(streams): list(steps_s[streams]) for streams in counts},
            "weight_bytes": work.weight_bytes,
            "parameters": work.parameters,
            "bytes_per_s": list(bytes_per_s),
            "flops_per_s": list(flops_per_s),
        },
    )


def predicted_ridge(work: Decoding, read: Interval, products: Interval) -> Interval:
    """Between what the slowest arithmetic with the fastest memory gives and the opposite."""
    bits = work.bits_per_weight
    return Interval(
        value=ridge_batch(products.value, read.value, bits),
        low=ridge_batch(products.low, read.high, bits),
        high=ridge_batch(products.high, read.low, bits),
        n=min(read.n, products.n),
    )


def measured_ridge(steps_s: Mapping[int, Sequence[float]]) -> MeasuredRidge:
    """Where the flat line and the one that grows with the streams meet, `t = c * max(1, streams / ridge)`, by least
    squares of the logarithms of median times; bounds by drawing the steps of each number of streams anew."""
    random = np.random.default_rng(0)
    counts = sorted(steps_s)
    best, misfit = _two_lines(counts, [float(np.median(steps_s[n])) for n in counts])
    if counts[-1] < _BEYOND * best:
        return MeasuredRidge(None, misfit)
    drawn = [
        _two_lines(counts, [float(np.median(random.choice(steps_s[n], len(steps_s[n])))) for n in counts])[0]
        for _ in range(_DRAWS)
    ]
    return MeasuredRidge(Interval.of_draws(best, drawn, sum(len(steps_s[n]) for n in counts)), misfit)


def half_speed(steps_s: Mapping[int, Sequence[float]]) -> float | None:
    """How many streams leave each half of a single one's speed, between two that were measured; None if none do."""
    counts = sorted(steps_s)
    medians = [float(np.median(steps_s[n])) for n in counts]
    slow = next((at for at, took in enumerate(medians) if took >= 2 * medians[0]), None)
    if slow is None:
        return None
    x = [math.log(took) for took in medians[slow - 1 : slow + 1]]
    y = [math.log(count) for count in counts[slow - 1 : slow + 1]]
    return math.exp(y[0] + (y[1] - y[0]) * (math.log(2 * medians[0]) - x[0]) / (x[1] - x[0]))


def _two_lines(counts: Sequence[int], times_s: Sequence[float]) -> tuple[float, float]:
    """The ridge, from 1 to the largest number of streams, that fits best, and the misfit; the smallest ridge of those
    that fit equally."""
    doublings = math.log2(counts[-1])
    tried = 2 ** np.linspace(0, doublings, max(2, round(_STEPS_OF_A_DOUBLING * doublings)))
    growth = np.log(np.maximum(1, np.asarray(counts, float)[None] / tried[:, None]))
    left = np.log(np.asarray(times_s, float))[None] - growth
    best = int(np.argmin(left.var(axis=1)))
    return float(tried[best]), float(np.expm1(np.abs(left[best] - left[best].mean()).max()))


def _law_line(work: Decoding, ceilings: Mapping[str, float], most: int) -> tuple[list[float], list[float]]:
    streams = [float(n) for n in np.geomspace(1, most, 64)]
    return streams, [n / work.term(n).seconds(ceilings) for n in streams]


def _sentence(predicted: Interval, ridge: MeasuredRidge, half: float | None, took: Mapping[int, Interval]) -> str:
    most = max(took)
    kept = f"{most} streams keep each {100 * took[1].value / took[most].value:.0f} % of a single one's speed"
    fast = max(took, key=lambda n: n / took[n].value)
    gain = fast / took[fast].value * took[1].value
    odd = batch_symptom([(n, took[n].value) for n in took], "streams")
    more = f"most is had of {fast} at once, {gain:.1f} times one stream's tokens per second"
    law = f"the law says {predicted.value:.1f} ({predicted.low:.1f} to {predicted.high:.1f})"
    if ridge.streams is None:
        return f"The ridge was not reached: {kept}, and {more}; {law}.{_of_symptom(odd)}"
    measured = ridge.streams
    halved = "" if half is None else f"; each has half of its speed left at {half:.1f}"
    return (
        f"Arithmetic bounds from {measured.value:.1f} streams on ({measured.low:.1f} to {measured.high:.1f}), where "
        f"{law}; {kept}{halved}; {more}.{_of_misfit(ridge.misfit, took, odd)}{_of_symptom(odd)}"
    )


def _of_misfit(misfit: float, took: Mapping[int, Interval], odd: Symptom | None) -> str:
    """The number of streams that is `odd` is told of by itself."""
    if misfit < _MISFIT:
        return ""
    few = sorted(took)[1]
    where = "" if odd else f": {few} streams take {took[few].value / took[1].value:.1f} times one's step"
    return f" Steps are up to {100 * misfit:.0f} % off a flat and a growing line{where}."


def _of_symptom(found: Symptom | None) -> str:
    if found is None:
        return ""
    return f" {found.name.capitalize()}: {found.symptom} {found.cause} {found.advice}"
