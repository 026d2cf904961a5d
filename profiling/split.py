"""Operations' time split into shares, for the measured operations and for many draws of what is uncertain: which
operations there were, the ceilings, and what was calibrated."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiling.bootstrap import drawn
from profiling.fit import Fit
from profiling.floors import Amounts, Floats
from profiling.operation_table import Table
from profiling.overhead import Overhead

_FRACTIONS = 10  # of an operation that lay beside other work: those of the same tenth are drawn together


@dataclass(frozen=True)
class Known:
    """What is known of the operations of one name; `work` is None when there is no floor. `law` is the time alone where
    nothing tells what it is made of."""

    work: Amounts | None
    ceilings: Mapping[str, Floats]
    overhead: Overhead | None
    law: Fit | None


@dataclass(frozen=True)
class Shares:
    """Seconds (draws), the estimate first; None is what cannot be known. They sum to `total`."""

    total: Floats
    compute: Floats | None
    bandwidth: Floats | None
    loop: Floats | None
    fixed: Floats | None
    contention: Floats | None
    residual: Floats


def split(table: Table, known: Known, draws: int, blocks: int, random: np.random.Generator) -> Shares:
    """At most `blocks` groups of operations of like size are drawn, or the operations themselves where there are no
    more. Contention is what those beside other work took longer than alone, or shorter, each by no more than it was
    beside; its sum is at least 0."""
    b = _Blocks.of(table, known, blocks)
    times = drawn(len(b.duration_s), draws, random)
    shares: dict[str, Floats | None] = dict.fromkeys(("compute", "bandwidth", "loop", "fixed", "contention"))
    alone_s: Floats | None = None
    if b.work is not None:
        ceilings = {name: values[:draws] for name, values in known.ceilings.items()}
        computing_s, reading_s = b.work.floors(ceilings, draws)
        shares["compute"], shares["bandwidth"] = _sums(times, computing_s), _sums(times, reading_s)
        if known.overhead:
            cost = known.overhead.first(draws)
            if b.beside_s.any():
                alone_s = cost.alone_s(computing_s + reading_s, b.work.steps, b.told)
            shares["loop"] = cost.per_step_s * (times @ b.work.steps)
            shares["fixed"] = cost.fixed_s * (times @ b.told)
    if alone_s is None and b.regressors is not None and known.law:
        law = known.law
        estimate = [law.constant.value, *(law.coefficients[name].value for name in law.names)]
        alone_s = np.vstack([estimate, law.draws[: draws - 1]]) @ b.regressors
    if not b.beside_s.any():
        shares["contention"] = np.zeros(draws)
    elif alone_s is not None:
        longer_s = np.clip(b.duration_s - alone_s, -b.beside_s, b.beside_s)
        shares["contention"] = np.maximum(_sums(times, longer_s), 0)
    total = times @ b.duration_s
    residual = total - sum((share for share in shares.values() if share is not None), np.zeros(draws))
    return Shares(total=total, residual=residual, **shares)


@dataclass(frozen=True)
class _Blocks:
    """Sums over neighbouring operations: durations, time beside other work, how many tell their units, their work;
    `regressors` (1 + units, blocks) are those of a law. Operations that tell nothing have no time beside other work."""

    duration_s: Floats
    beside_s: Floats
    told: Floats
    work: Amounts | None
    regressors: Floats | None

    @classmethod
    def of(cls, table: Table, known: Known, blocks: int) -> "_Blocks":
        duration_s, beside_s = table.duration_s, table.overlap_s
        regressors = _regressors(table, known.law) if known.law else None
        told = np.ones(len(table), bool)
        if known.work is not None:
            told = known.work.told
        comparable = told
        if regressors is not None:
            comparable = told & ~np.isnan(regressors).any(axis=0)
            regressors = np.where(comparable, regressors, 0)
        beside_s = np.where(comparable, beside_s, 0)
        found = cls(duration_s, beside_s, told.astype(float), known.work, regressors)
        return found if len(table) <= blocks else found._merged(blocks, known)

    def _merged(self, blocks: int, known: Known) -> "_Blocks":
        size = np.zeros(len(self.told))
        if self.work is not None:
            computing_s, reading_s = self.work.floors({k: v[:1] for k, v in known.ceilings.items()}, 1)
            size = (computing_s + reading_s)[0]
        elif self.regressors is not None and len(self.regressors) > 1:
            size = self.regressors[1]
        tenth = np.ceil(_FRACTIONS * self.beside_s / np.maximum(self.duration_s, 1e-9))
        order = np.lexsort((size, tenth, self.told))
        starts = np.linspace(0, len(order), blocks, endpoint=False).astype(np.intp)

        def sums(values: Floats) -> Floats:
            return np.add.reduceat(values[..., order], starts, axis=-1)

        return _Blocks(
            sums(self.duration_s),
            sums(self.beside_s),
            sums(self.told),
            self.work.merged(order, starts) if self.work is not None else None,
            sums(self.regressors) if self.regressors is not None else None,
        )


def _regressors(table: Table, law: Fit) -> Floats:
    nowhere = np.full(len(table), np.nan)
    return np.vstack([np.ones(len(table)), *(table.units.get(name, nowhere) for name in law.names)])


def _sums(times: Floats, seconds: Floats) -> Floats:
    return np.einsum("kn,kn->k", times, seconds)
