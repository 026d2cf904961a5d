"""What was measured, what it should have taken by the laws, and the law's name."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.experiments.full_size.ceilings import READ
from profiling.machine import Ceiling
from profiling.workload import Work

BANDWIDTH, COMPUTE, SUM, PATCH_LOOP = "bandwidth", "compute", "sum of parts", "patch loop"
INTERCEPT_AND_PATCH = "intercept + one patch"
FIXED, WAIT, OURS = "fixed", "wait", "nothing to do"


@dataclass(frozen=True)
class Term:
    """Work that is bound by one ceiling or the other: `rate` names that of its arithmetic, `read` that of reading."""

    work: Work
    rate: str
    read: str = READ

    def __mul__(self, times: float) -> "Term":
        return Term(self.work * times, self.rate, self.read)

    def seconds(self, ceilings: Mapping[str, Ceiling]) -> float:
        return max(self.reading_s(ceilings), self.computing_s(ceilings))

    def law(self, ceilings: Mapping[str, Ceiling]) -> str:
        return BANDWIDTH if self.reading_s(ceilings) >= self.computing_s(ceilings) else COMPUTE

    def reading_s(self, ceilings: Mapping[str, Ceiling]) -> float:
        return self.work.bytes / ceilings[self.read].median

    def computing_s(self, ceilings: Mapping[str, Ceiling]) -> float:
        return self.work.flops / ceilings[self.rate].median


@dataclass(frozen=True)
class Sample:
    """One stage, or a `part` of it, measured once or several times.

    The prediction sums over `terms`, each its own bound, and `stated_s`, which is no work: a wait that was set, what
    was measured alone, a regression's. There is none without either. `law` names it where one term's bound does not.
    """

    engine: str
    stage: str
    part: str | None
    measured_s: tuple[float, ...]
    terms: tuple[Term, ...] = ()
    law: str | None = None
    stated_s: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A sample with its prediction."""

    sample: Sample
    predicted_s: float | None
    law: str

    @property
    def median_s(self) -> float:
        return statistics.median(self.sample.measured_s)

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return self.median_s / self.predicted_s if self.predicted_s else None

    def as_json(self) -> dict[str, Any]:
        work = sum((term.work for term in self.sample.terms), Work())
        return {
            "engine": self.sample.engine,
            "stage": self.sample.stage,
            "part": self.sample.part,
            "law": self.law,
            "measured_s": list(self.sample.measured_s),
            "median_s": self.median_s,
            "predicted_s": self.predicted_s,
            "ratio": self.ratio,
            "bytes": work.bytes if self.sample.terms else None,
            "flops": work.flops if self.sample.terms else None,
            "note": self.sample.note,
        }


def rows(samples: Sequence[Sample], ceilings: Mapping[str, Ceiling]) -> list[Row]:
    return [_row(sample, ceilings) for sample in samples if sample.measured_s]


def _row(sample: Sample, ceilings: Mapping[str, Ceiling]) -> Row:
    if not sample.terms:
        return Row(sample, sample.stated_s, sample.law or FIXED)
    predicted_s = sum(term.seconds(ceilings) for term in sample.terms) + (sample.stated_s or 0)
    largest = max(sample.terms, key=lambda term: term.seconds(ceilings))
    return Row(sample, predicted_s, sample.law or largest.law(ceilings))
