"""A token's time taken apart: what memory allows, what attention takes beyond it, and what is left, which copies of the
model in other formats and sizes split into what grows with the weights and what every token pays."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from profiling import operations as op
from profiling.calibration import Sample
from profiling.fit import Line, theil_sen
from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series
from profiling.studies.node_times import NodeTimes, node_sentence
from profiling.studies.weight_costs import File, costs_sentence, weight_costs

_ANOTHER_DEPTH = 1.3  # times as much KV cache as the token before it, in order of depth


@dataclass(frozen=True)
class Split:
    """Seconds of a token with `kv_bytes` of KV cache: `weights` and `kv` at the ceiling of reading memory, `attention`
    what a byte of KV cache costs beyond that, `rest` all else. They sum to `token`; a part below 0 is faster than the
    ceiling, as from a cache."""

    name: str
    kv_bytes: float
    token: float
    weights: float
    kv: float
    attention: float
    rest: float
    n: int

    @property
    def ceiling_share(self) -> float:
        return (self.weights + self.kv) / self.token


def decode_gap_finding(
    model: str, own: File, copies: Sequence[File], nodes: NodeTimes, notes: Sequence[str] = ()
) -> Finding:
    """`own`, whose `nodes` were timed too, has tokens at several depths, `copies` at one. Raises ValueError where `own`
    has tokens at one depth only."""
    line = depth_line(own)
    splits = split(own, line)
    of_copies = [one for copy in copies for one in split(copy, line)]
    costs = weight_costs([own, *copies], line.slope.value)
    return Finding(
        title=f"A token of {model}, ms",
        columns=("file, KV cache", "token", "weights", "KV", "attention", "rest", "ceiling", "n"),
        rows=tuple(_cells(one) for one in [*splits, *of_copies]),
        plot=_plot(model, [*splits, *of_copies]),
        sentence=" ".join(
            (_of_split(splits[-1], own.read, line), costs_sentence(costs, own, splits[-1].token), node_sentence(nodes))
        ),
        notes=tuple(notes),
        data={
            "files": [
                {
                    "name": file.name,
                    "weight_bytes": file.weight_bytes,
                    "elements": dict(file.elements),
                    "bytes_per_s": list(file.bytes_per_s),
                    "samples": [sample.model_dump() for sample in file.samples],
                }
                for file in [own, *copies]
            ],
            "nodes": asdict(nodes),
            "per_token_s": costs.token.model_dump() if costs else None,
            "per_weight_s": {name: one.model_dump() for name, one in costs.weight.items()} if costs else None,
        },
    )


def depth_line(file: File) -> Line:
    """Seconds of a token over its bytes of KV cache. Raises ValueError with one depth only."""
    return theil_sen([(sample.units[op.KV_BYTES], sample.duration_s) for sample in file.samples])


def split(file: File, line: Line) -> list[Split]:
    """At every depth of the file's, the shallowest first. A byte of KV cache costs what the line says, whatever the
    format of the weights."""
    found: list[Split] = []
    each_s = 1 / file.read.value
    for tokens in _by_depth(file.samples):
        kv_bytes = median(sample.units[op.KV_BYTES] for sample in tokens)
        token_s = median(sample.duration_s for sample in tokens)
        weights, kv = file.weight_bytes * each_s, kv_bytes * each_s
        attention = line.slope.value * kv_bytes - kv
        rest = token_s - weights - kv - attention
        found.append(Split(file.name, kv_bytes, token_s, weights, kv, attention, rest, len(tokens)))
    return found


def _by_depth(samples: Sequence[Sample]) -> list[list[Sample]]:
    groups: list[list[Sample]] = []
    for sample in sorted(samples, key=lambda one: one.units[op.KV_BYTES]):
        if groups and sample.units[op.KV_BYTES] <= _ANOTHER_DEPTH * groups[-1][-1].units[op.KV_BYTES]:
            groups[-1].append(sample)
        else:
            groups.append([sample])
    return groups


def _cells(one: Split) -> tuple[str, ...]:
    parts = (one.token, one.weights, one.kv, one.attention, one.rest)
    return (_label(one), *(f"{part * 1e3:.2f}" for part in parts), f"{100 * one.ceiling_share:.0f} %", str(one.n))


def _label(one: Split) -> str:
    return f"{one.name}, {one.kv_bytes / (1 << 20):.1f} MiB"


def _plot(model: str, splits: Sequence[Split]) -> Plot:
    labels = [_label(one).replace(", ", "\n") for one in splits]
    parts = {
        "weights, at the ceiling": [one.weights for one in splits],
        "KV cache, at the ceiling": [one.kv for one in splits],
        "attention beyond that": [one.attention for one in splits],
        "rest": [one.rest for one in splits],
    }
    return Plot(
        title=f"Where a token's time goes: {model}",
        x_label="format and KV cache",
        y_label="ms a token",
        series=tuple(Series(name, labels, [s * 1e3 for s in each], style="bars") for name, each in parts.items()),
        from_zero=min(s for each in parts.values() for s in each) >= 0,
    )


def _of_split(one: Split, read: Interval, line: Line) -> str:
    shares = {
        "the weights": one.weights,
        "the KV cache": one.kv,
        "attention beyond reading it": one.attention,
        "the rest": one.rest,
    }
    told = ", ".join(f"{100 * part / one.token:.0f} % {name}" for name, part in shares.items())
    deep = line.slope.low * read.low > 1 or line.slope.high * read.high < 1
    unsure = "" if deep else " (attention cannot be told from reading at the ceiling)"
    return (
        f"Of {one.token * 1e3:.1f} ms a token with {one.kv_bytes / (1 << 20):.1f} MiB of KV cache, at "
        f"{read.value / 1e9:.1f} GB/s: {told}{unsure}."
    )
