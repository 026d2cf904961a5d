"""What a token costs whatever is multiplied, and what a weight costs by its format, from files of several sizes and
formats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiling import operations as op
from profiling.calibration import Sample
from profiling.fit import fit
from profiling.interval import Interval

_NEGLIGIBLE = 0.01  # of a file's weights: norms and biases
_REFERENCE = "F16"  # the format that needs no dequantisation


@dataclass(frozen=True)
class File:
    """A model's file as measured. `elements` are the weights that one token reads, by format, `element_bytes` each
    one's size; `samples` are tokens, `bytes_per_s` how fast memory was read meanwhile."""

    name: str
    weight_bytes: float
    elements: Mapping[str, float]
    element_bytes: Mapping[str, float]
    samples: Sequence[Sample]
    bytes_per_s: Sequence[float]

    @property
    def read(self) -> Interval:
        return Interval.of_median(self.bytes_per_s)


@dataclass(frozen=True)
class Costs:
    """Of a token whatever is multiplied, and of a weight, by format, beyond reading it at the ceiling; in seconds."""

    token: Interval
    weight: Mapping[str, Interval]


def weight_costs(files: Sequence[File], kv_byte_s: float) -> Costs | None:
    """By regression of the tokens' times, less those of the KV cache, on the weights in each format; the constant is
    what a token costs whatever is multiplied. None where the files are of too few sizes and formats.

    Files with a format that no other one has tell nothing and are left out.
    """
    kinds = {file.name: _formats(file) for file in files}
    shared = [
        file for file in files if all(sum(name in kind for kind in kinds.values()) > 1 for name in kinds[file.name])
    ]
    formats = sorted({name for file in shared for name in kinds[file.name]})
    design = np.array([[1.0, *(file.elements.get(name, 0) / 1e9 for name in formats)] for file in shared])
    if not shared or np.linalg.matrix_rank(design) < len(formats) + 1:
        return None
    measured = [(file, sample) for file in shared for sample in file.samples]
    law = fit(
        [{name: file.elements.get(name, 0) for name in formats} for file, _ in measured],
        [sample.duration_s - kv_byte_s * sample.units[op.KV_BYTES] for _, sample in measured],
    )
    read = Interval.of_median([value for file in shared for value in file.bytes_per_s])
    sizes = {name: size for file in shared for name, size in file.element_bytes.items()}
    return Costs(law.constant, {name: _beyond(law.coefficients[name], sizes[name], read) for name in formats})


def _beyond(each_s: Interval, element_bytes: float, read: Interval) -> Interval:
    return Interval(
        value=each_s.value - element_bytes / read.value,
        low=each_s.low - element_bytes / read.low,
        high=each_s.high - element_bytes / read.high,
        n=each_s.n,
    )


def _formats(file: File) -> set[str]:
    total = sum(file.elements.values())
    return {name for name, count in file.elements.items() if count > _NEGLIGIBLE * total}


def costs_sentence(costs: Costs | None, own: File, token_s: float) -> str:
    """Shares are those of a token of `own` that takes `token_s`."""
    if costs is None:
        return "Too few sizes and formats were measured to tell dequantisation from gaps in the rest."
    told = [_of_token(costs.token)]
    for name, cost in sorted(costs.weight.items(), key=lambda item: -own.elements.get(item[0], 0)):
        share = 100 * cost.value * own.elements.get(name, 0) / token_s
        of_token = f", {share:.0f} % of that token" if name in own.elements else ""
        told.append(f"a weight in {name} {_bounded(cost, 1e12)} ps{of_token}")
    return f"Beyond reading, by the copies: {'; '.join(told)}.{_of_dequantisation(costs, own)}"


def _of_dequantisation(costs: Costs, own: File) -> str:
    """Of the format that most weights have, against the one that needs none."""
    main = max(own.elements, key=lambda name: own.elements[name])
    if main == _REFERENCE or not {main, _REFERENCE} <= costs.weight.keys():
        return ""
    one, other = costs.weight[main], costs.weight[_REFERENCE]
    low, high = one.low - other.high, one.high - other.low
    if low <= 0 <= high:
        bounds = f"{low * 1e12:.0f} to {high * 1e12:.0f} ps a weight"
        return f" So dequantising {main} costs nothing that can be told ({bounds})."
    more = "more" if low > 0 else "less"
    return (
        f" So a weight in {main} takes {abs(one.value - other.value) * 1e12:.0f} ps {more} than one that needs no "
        f"dequantisation ({low * 1e12:.0f} to {high * 1e12:.0f})."
    )


def _of_token(cost: Interval) -> str:
    """A constant below 0 says that time does not grow in proportion with the weights."""
    if cost.low > 0:
        return f"whatever is multiplied, a token costs {_bounded(cost, 1e3)} ms"
    why = ": smaller copies may find more of themselves in the cache" if cost.high < 0 else ""
    return f"no cost that every token pays was found ({cost.low * 1e3:.2f} to {cost.high * 1e3:.2f} ms{why})"


def _bounded(one: Interval, factor: float) -> str:
    return f"{one.value * factor:.2f} ({one.low * factor:.2f} to {one.high * factor:.2f})"
