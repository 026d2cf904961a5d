"""The least time that operations can take at measured ceilings, for many operations and many draws of the ceilings at
once. In every array of draws the first row is the estimate itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from profiling.interval import Interval
from profiling.spread import NORMAL
from profiling.work_book import Linear, OperationWork

Floats = NDArray[np.float64]

_WIDEST = 100.0  # a bound is taken to lie within this factor of its value


@dataclass(frozen=True)
class Amounts:
    """What n operations have to do: `flops` and `bytes` are (terms, n), `steps` are the serial steps (n). `told` says
    of which operations all units are known; the others have no work here."""

    rates: tuple[str, ...]
    reads: tuple[str, ...]
    flops: Floats
    bytes: Floats
    steps: Floats
    told: NDArray[np.bool_]

    @property
    def ceilings(self) -> set[str]:
        """The names of those without which there is no floor."""
        computing = {name for name, flops in zip(self.rates, self.flops, strict=True) if flops.any()}
        return computing | {name for name, read in zip(self.reads, self.bytes, strict=True) if read.any()}

    def merged(self, order: NDArray[np.intp], starts: NDArray[np.intp]) -> "Amounts":
        """Sums over neighbours, in `order`, each group from its start to the next."""

        def sums(values: Floats) -> Floats:
            return np.add.reduceat(values[..., order], starts, axis=-1)

        told = np.logical_or.reduceat(self.told[order], starts)
        return replace(self, flops=sums(self.flops), bytes=sums(self.bytes), steps=sums(self.steps), told=told)

    def floors(self, ceilings: Mapping[str, Floats], draws: int) -> tuple[Floats, Floats]:
        """Seconds (draws, n) of the terms that are bound by arithmetic, and of those bound by reading: of each term,
        the larger of F / peak and Q / bandwidth. `ceilings` are (draws) by name."""
        computing, reading = np.zeros((2, draws, len(self.steps)))
        for rate, read, flops, read_bytes in zip(self.rates, self.reads, self.flops, self.bytes, strict=True):
            compute_s = flops / ceilings[rate][:, None] if flops.any() else np.zeros((1, 1))
            read_s = read_bytes / ceilings[read][:, None] if read_bytes.any() else np.zeros((1, 1))
            bound = read_s >= compute_s
            computing += np.where(bound, 0, compute_s)
            reading += np.where(bound, read_s, 0)
        return computing, reading


def amounts(work: OperationWork, units: Mapping[str, Floats], count: int) -> Amounts:
    """`units` by name, (n) each, NaN where an operation does not tell it."""
    flops = np.array([_linear(term.flops, units, count) for term in work.terms], float).reshape(len(work.terms), count)
    read = np.array([_linear(term.bytes, units, count) for term in work.terms], float).reshape(len(work.terms), count)
    steps = _linear(work.steps, units, count)
    told = ~np.isnan(flops.sum(axis=0) + read.sum(axis=0) + steps)
    rates, reads = tuple(term.rate for term in work.terms), tuple(term.read for term in work.terms)
    return Amounts(rates, reads, np.where(told, flops, 0), np.where(told, read, 0), np.where(told, steps, 0), told)


def _linear(law: Linear, units: Mapping[str, Floats], count: int) -> Floats:
    total = np.full(count, law.constant)
    for name, each in law.per.items():
        if each:
            total = total + each * units.get(name, np.full(count, np.nan))
    return np.maximum(total, 0)


def ceiling_draws(ceilings: Mapping[str, Interval], draws: int, random: np.random.Generator) -> dict[str, Floats]:
    """Rates (draws) by name, the first the estimate, the others spread over its interval as a lognormal distribution
    with those bounds. A ceiling that is not above 0 is left out."""
    return {name: _draws(ceilings[name], draws, random) for name in sorted(ceilings) if ceilings[name].value > 0}


def _draws(interval: Interval, draws: int, random: np.random.Generator) -> Floats:
    below = math.log(min(_WIDEST, interval.value / max(interval.low, interval.value / _WIDEST)))
    above = math.log(min(_WIDEST, max(1.0, interval.high / interval.value)))
    z = np.concatenate([[0.0], random.standard_normal(draws - 1)]) / NORMAL
    return interval.value * np.exp(np.where(z < 0, z * below, z * above))
