"""Prefill: the fixed cost that short prompts pay beside their arithmetic."""

from collections.abc import Sequence

from profiling import operations as op
from profiling.calibration import Sample
from profiling.fit import theil_sen
from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series

_ENOUGH = 3  # lengths


def prefill_finding(model: str, samples: Sequence[Sample], flops_per_token: float | None) -> Finding:
    """From prompts of several lengths, each measured several times.

    `flops_per_token` is two operations per parameter, embeddings not counted; None where it is not known. The law:
    t = fixed + tokens / rate. Raises ValueError with fewer than three lengths.
    """
    by_length: dict[float, list[float]] = {}
    for sample in samples:
        by_length.setdefault(sample.units[op.TOKENS], []).append(sample.duration_s)
    if len(by_length) < _ENOUGH:
        raise ValueError(f"prompts of {len(by_length)} lengths: too few for a line")
    line = theil_sen([(tokens, s) for tokens, times in by_length.items() for s in times])
    lengths = sorted(by_length)
    times = {tokens: Interval.of_median(by_length[tokens]) for tokens in lengths}
    rows = tuple(
        (
            f"{tokens:.0f} tokens",
            f"{times[tokens].value * 1e3:.1f} ms",
            f"{tokens / times[tokens].value:.0f}",
            _rate(flops_per_token, tokens, times[tokens].value),
            _share(line.intercept.value, times[tokens].value),
            str(times[tokens].n),
        )
        for tokens in lengths
    )
    return Finding(
        title=f"Prefill of {model}",
        columns=("prompt", "time", "tokens/s", "GFLOP/s", "fixed cost's share", "n"),
        rows=rows,
        plot=Plot(
            title=f"Prefill of {model}",
            x_label="tokens evaluated",
            y_label="time, ms",
            series=(
                Series(
                    "measured",
                    lengths,
                    [times[t].value * 1e3 for t in lengths],
                    [times[t].low * 1e3 for t in lengths],
                    [times[t].high * 1e3 for t in lengths],
                ),
                Series(
                    "fixed + tokens / rate",
                    [0.0, lengths[-1]],
                    [line.at(x) * 1e3 for x in (0.0, lengths[-1])],
                    style="line",
                ),
            ),
        ),
        sentence=_sentence(line.intercept, line.slope, lengths),
        data={"samples": [sample.model_dump() for sample in samples], "flops_per_token": flops_per_token},
    )


def _sentence(fixed: Interval, slope: Interval, lengths: Sequence[float]) -> str:
    bounds = f"{fixed.low * 1e3:.1f} to {fixed.high * 1e3:.1f} ms"
    if fixed.low <= 0:
        return (
            f"No fixed cost was found beside {slope.value * 1e3:.2f} ms a token: for prompts of {lengths[0]:.0f} to "
            f"{lengths[-1]:.0f} tokens it lies within {bounds}, which may be nothing."
        )
    worth = fixed.value / slope.value
    return (
        f"A prompt costs {fixed.value * 1e3:.1f} ms ({bounds}) before its first token and {slope.value * 1e3:.2f} ms a "
        f"token: the fixed cost is worth {worth:.0f} tokens, and prompts shorter than that are mostly fixed cost."
    )


def _rate(flops_per_token: float | None, tokens: float, seconds: float) -> str:
    return "" if flops_per_token is None else f"{flops_per_token * tokens / seconds / 1e9:.1f}"


def _share(fixed_s: float, seconds: float) -> str:
    return f"{100 * min(1.0, max(0.0, fixed_s) / seconds):.0f} %"
