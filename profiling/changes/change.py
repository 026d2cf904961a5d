"""What a change is: a small pure object that maps the services of a step to new ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

from profiling.evidence import Evidence
from profiling.fit import Fit
from profiling.interval import Interval
from profiling.operations import operations_of
from profiling.trace import vocabulary as v
from profiling.trace.clock import NS_PER_S
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage

T = TypeVar("T")


class ChangeRefused(Exception):
    """A sentence: why it cannot be said what a change would do."""


@dataclass(frozen=True)
class Service:
    """One operation of a step (`profiling.operations`), or a whole step where it is none: then `name` is None.

    `seconds` are as recorded, or as they would be. `by_chance` says that they fall anywhere between their bounds, in
    every turn anew, where otherwise they are one value that is not known exactly."""

    stage: Stage
    name: str | None
    seconds: Interval
    units: Mapping[str, float] = field(default_factory=dict[str, float])
    parts_s: Mapping[str, float] = field(default_factory=dict[str, float])
    by_chance: bool = False

    def lasting(self, seconds: Interval) -> "Service":
        return replace(self, seconds=seconds)


def services_of(step: Step) -> list[Service]:
    """As recorded: each pass of a loop by itself."""
    found = [
        Service(
            operation.stage,
            operation.name,
            Interval.exactly(operation.duration_ns / NS_PER_S),
            operation.units,
            {part: ns / NS_PER_S for part, ns in operation.parts_ns.items()},
        )
        for operation in operations_of(step)
    ]
    return found or [Service(step.stage, None, Interval.exactly(step.duration_ns / NS_PER_S))]


@dataclass(frozen=True)
class Context:
    """The turns of the run that count, and what their steps are explained with."""

    turns: Sequence[Turn]
    evidence: Evidence
    _known: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def once(self, what: str, compute: Callable[[], T]) -> T:
        """A figure of the run, computed when it is first asked for."""
        if what not in self._known:
            self._known[what] = compute()
        return cast(T, self._known[what])

    def law(self, operation: str) -> Fit | None:
        """The calibrated one."""
        calibration = self.evidence.calibration
        return self.once(f"law of {operation}", lambda: calibration.law(operation) if calibration else None)

    @cached_property
    def services(self) -> list[list[Service]]:
        """Those of each step of the turns that is an operation, up to first audio."""
        steps = [step for turn in self.turns for step in turn.steps if _is_before_first_audio(step, turn)]
        return [found for step in steps if (found := services_of(step))[0].name is not None]

    def of(self, *names: str) -> list[Service]:
        return [service for step in self.services for service in step if service.name in names]

    def with_evidence(self, evidence: Evidence) -> "Context":
        """What was computed of the run stays: the calibration is the same."""
        return Context(self.turns, evidence, self._known)


class Change:
    """Does nothing; each kind of change overrides what it needs. `before` is what the steps were explained with up to
    this change, `after` what they are explained with from it on. `on_floors` marks those that come last, whatever was
    asked for first: they change how long any work takes, work that another change has put in among it."""

    on_floors: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """A few words for a title."""
        raise NotImplementedError

    def check(self, context: Context) -> None:
        """Raises ChangeRefused."""

    def evidence_after(self, evidence: Evidence) -> Evidence:
        return evidence

    def restructured(self, turn: Turn, context: Context) -> Turn:
        """With steps of no length where the change needs some that were not there."""
        return turn

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        return services

    def patches_before_sound(self, patches: int) -> int:
        """With how many patches the start buffer is full."""
        return patches

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        """Sentences: where it extrapolates."""
        return iter(())


def model(turns: Sequence[Turn], group: str) -> str:
    """The name of an engine's model, as the turns tell it."""
    names = [
        str(a[v.MODEL]) for turn in turns for (name, _), a in turn.groups.items() if name == group and v.MODEL in a
    ]
    return names[0] if names else "the model"


def _is_before_first_audio(step: Step, turn: Turn) -> bool:
    return turn.first_audio_ns is None or step.start_ns < turn.first_audio_ns
