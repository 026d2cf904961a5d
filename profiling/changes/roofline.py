"""Another memory, another arithmetic: the floor of the work changes, what is above it stays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from profiling.changes.change import Change, ChangeRefused, Context, Service, model
from profiling.evidence import Evidence
from profiling.interval import Interval
from profiling.quantities import BANDWIDTH, COMPUTE
from profiling.readings import least_time
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.work_book import OperationWork

_ENGINES = {"asr": v.ASR, "llm": v.LLM, "tts": v.TTS}
_BOUNDS = ("value", "low", "high")
_SLACK = 1.02  # a time this much below its floor is taken for one above it: rounding, and the ceilings' own noise


def refloored(service: Service, before: Evidence, after: Evidence, *, may_go_along: bool = False) -> Service:
    """The service with the floor of `after` instead of that of `before`; unchanged where its work is not known.

    What it took above its floor (step overhead, fixed costs) stays. The bounds are those of the ceilings; with
    `may_go_along` they reach to where what is above the floor changes along with it."""
    old, new = floor(service, before), floor(service, after)
    if old is None or new is None or old.value <= 0:
        return service
    found: list[float] = []
    for bound in _BOUNDS:
        was, becomes = float(getattr(old, bound)), float(getattr(new, bound))
        for each in _BOUNDS:
            takes = float(getattr(service.seconds, each))
            found += [_kept(takes, was, becomes)] + ([takes * becomes / was] if may_go_along else [])
    value = _kept(service.seconds.value, old.value, new.value)
    return service.lasting(Interval(value=value, low=min(found), high=max(found), n=old.n))


def _kept(takes_s: float, floor_s: float, new_floor_s: float) -> float:
    """A time below its floor shrinks and grows with it."""
    return takes_s - floor_s + new_floor_s if takes_s > floor_s else takes_s * new_floor_s / floor_s


def floor(service: Service, evidence: Evidence) -> Interval | None:
    """The least time for the service's work; None where its work, a unit of it, or a ceiling is not known."""
    work = evidence.work_book.operations.get(service.name or "")
    if work is None or not work.terms or not _tells_all(service.units, work):
        return None
    return least_time([term.at(service.units) for term in work.terms], evidence.ceilings)


def _tells_all(units: Mapping[str, float], work: OperationWork) -> bool:
    laws = [law for term in work.terms for law in (term.flops, term.bytes)]
    return all(unit in units for law in laws for unit, each in law.per.items() if each)


class RooflineChange(Change):
    """Every operation whose work is known gets its new floor."""

    on_floors: ClassVar[bool] = True
    may_go_along: ClassVar[bool] = False

    def check(self, context: Context) -> None:
        if not any(floor(service, context.evidence) for services in context.services for service in services):
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: of no engine of this run are both the work and the "
                "ceilings known; replay with local models and let "
                "`turnscope calibrate` and `turnscope machine` measure first."
            )

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        along = self.may_go_along
        return [refloored(service, before.evidence, after.evidence, may_go_along=along) for service in services]

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        known = [(s, f) for step in before.services for s in step if (f := floor(s, before.evidence))]
        unknown = {s.name.partition(".")[0] for step in before.services for s in step if s.name} - {
            str(s.name).partition(".")[0] for s, _ in known
        }
        for engine in sorted(unknown & _ENGINES.keys()):
            name = model(before.turns, _ENGINES[engine])
            yield f"The work of {name} is not known: its time stays as it was."
        for name in dict.fromkeys(str(s.name) for s, f in known if s.seconds.value * _SLACK < f.low):
            yield (
                f"Some {name} took less than its work can take at the measured ceilings: those are too low, or the "
                "work is counted too high, and what becomes of it is uncertain."
            )


@dataclass(frozen=True)
class Bandwidth(RooflineChange):
    """Memory that is read at another rate, by all engines."""

    bytes_per_s: float

    @property
    def label(self) -> str:
        return f"memory read at {BANDWIDTH.shown(self.bytes_per_s)}"

    def evidence_after(self, evidence: Evidence) -> Evidence:
        names = {term.read for work in evidence.work_book.operations.values() for term in work.terms}
        return _with_ceilings(evidence, names, self.bytes_per_s)

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        yield (
            f"{BANDWIDTH.shown(self.bytes_per_s)} is another machine's memory: its arithmetic, step overheads and "
            "fixed costs are taken to be this machine's."
        )
        yield from super().caveats(before, after)


@dataclass(frozen=True)
class ComputeRate(RooflineChange):
    """Arithmetic at another rate, in all number types and formats, of all engines."""

    flops_per_s: float

    @property
    def label(self) -> str:
        return f"arithmetic at {COMPUTE.shown(self.flops_per_s)}"

    def evidence_after(self, evidence: Evidence) -> Evidence:
        names = {term.rate for work in evidence.work_book.operations.values() for term in work.terms}
        return _with_ceilings(evidence, names, self.flops_per_s)

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        yield (
            f"{COMPUTE.shown(self.flops_per_s)} is another machine's arithmetic, taken to be the same in every "
            "number type: its memory, step overheads and fixed costs are taken to be this machine's."
        )
        yield from super().caveats(before, after)


def _with_ceilings(evidence: Evidence, names: set[str], value: float) -> Evidence:
    changed = {name: Interval.exactly(value) for name in names}
    return replace(evidence, ceilings={**evidence.ceilings, **changed})
