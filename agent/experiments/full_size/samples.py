"""What was measured, what it should have taken at the machine's ceilings, and what binds it there."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.experiments.full_size.demands import Demand
from profiling.extrapolation_reasons import Compared
from profiling.machine import Ceiling
from profiling.roofline import Term
from profiling.workload import Work

SUM, PATCH_LOOP = "sum of parts", "patch loop"
INTERCEPT_AND_PATCH = "intercept + one patch"
FIXED, WAIT, OURS = "fixed", "wait", "nothing to do"


@dataclass(frozen=True)
class Sample:
    """One stage, or a `part` of it, measured once or several times.

    The prediction sums over `terms`, each its own bound, and `stated_s`, which is no work: a wait that was set, what
    was measured alone, a regression's. There is none without either. `law` names it where one term's bound does not.
    `demands` are what it asks of the laws of small models; one with a single demand is what such laws are fitted to.
    """

    engine: str
    stage: str
    part: str | None
    measured_s: tuple[float, ...]
    terms: tuple[Term, ...] = ()
    law: str | None = None
    stated_s: float | None = None
    note: str = ""
    demands: tuple[Demand, ...] = ()


@dataclass(frozen=True)
class Row:
    """A sample with its prediction at the ceilings, and what the laws of small models say of it (`compared`; None where
    they say nothing); `reasons` are clauses on why they do not hold."""

    sample: Sample
    predicted_s: float | None
    law: str
    compared: Compared | None = None
    reasons: tuple[str, ...] = ()

    @property
    def median_s(self) -> float:
        return statistics.median(self.sample.measured_s)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return self.median_s / self.predicted_s if self.predicted_s else None

    def as_json(self) -> dict[str, Any]:
        work = sum((term.work for term in self.sample.terms), Work())
        by_law = self.compared
        return {
            "engine": self.sample.engine,
            "stage": self.sample.stage,
            "part": self.sample.part,
            "law": self.law,
            "measured_s": list(self.sample.measured_s),
            "median_s": self.median_s,
            "predicted_s": self.predicted_s,
            "ratio": self.ratio,
            "small_models": None
            if by_law is None
            else {
                "predicted_s": by_law.predicted.value,
                "low_s": by_law.predicted.low,
                "high_s": by_law.predicted.high,
                "ratio": by_law.ratio,
                "holds": by_law.holds,
                "reasons": list(self.reasons),
            },
            "bytes": work.bytes if self.sample.terms else None,
            "flops": work.flops if self.sample.terms else None,
            "note": self.sample.note,
        }


def rows(samples: Sequence[Sample], ceilings: Mapping[str, Ceiling]) -> list[Row]:
    rates = {name: ceiling.median for name, ceiling in ceilings.items()}
    return [_row(sample, rates) for sample in samples if sample.measured_s]


def _row(sample: Sample, ceilings: Mapping[str, float]) -> Row:
    if not sample.terms:
        return Row(sample, sample.stated_s, sample.law or FIXED)
    predicted_s = sum(term.seconds(ceilings) for term in sample.terms) + (sample.stated_s or 0)
    largest = max(sample.terms, key=lambda term: term.seconds(ceilings))
    return Row(sample, predicted_s, sample.law or largest.bound(ceilings))
