"""Other diffusion steps, a smaller first patch, fewer patches before sound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from profiling.changes.change import Change, ChangeRefused, Context, Service, model
from profiling.changes.roofline import floor
from profiling.interval import Interval
from profiling.operations import FIRST_PATCH, FORWARDS, PATCH
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.turn import described
from profiling.turn_graph import TurnGraph

_DIFFUSION = "diffusion"  # the part of a patch that the forwards are


@dataclass(frozen=True)
class DiffusionSteps(Change):
    """Every patch with so many diffusion steps. A step is a forward; VoxCPM2 goes once less through its diffusion
    module than it has steps, which the run's own figures tell."""

    steps: int

    @property
    def label(self) -> str:
        return f"{self.steps} diffusion steps" if self.steps != 1 else "1 diffusion step"

    def check(self, context: Context) -> None:
        patches = context.of(FIRST_PATCH, PATCH)
        name = model(context.turns, v.TTS)
        if not any(FORWARDS in patch.units for patch in patches) or not any(map(_steps_of, context.turns)):
            raise ChangeRefused(f"{name} has no diffusion steps: another number of them changes nothing.")
        if all(_per_forward(patch, context) is None for patch in patches):
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: the run does not tell how much of a patch of {name} is "
                "diffusion; calibrate it with several numbers of steps."
            )

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        steps = _steps_of(turn)
        return services if steps is None else [self._patch(service, steps, before) for service in services]

    def _patch(self, service: Service, steps: float, context: Context) -> Service:
        was, per_forward = service.units.get(FORWARDS), _per_forward(service, context)
        if not was or per_forward is None:
            return service
        now = float(self.steps - 1 if was == steps - 1 else self.steps * was / steps)
        more = per_forward.scaled(now - was)
        parts_s = dict(service.parts_s)
        if _DIFFUSION in parts_s:
            parts_s[_DIFFUSION] *= now / was
        seconds = Interval(
            value=max(0.0, service.seconds.value + more.value),
            low=max(0.0, service.seconds.low + more.low),
            high=max(0.0, service.seconds.high + more.high),
            n=more.n,
        )
        return replace(service, seconds=seconds, units={**service.units, FORWARDS: now}, parts_s=parts_s)

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        patches = before.of(FIRST_PATCH, PATCH)
        was = {s.units[FORWARDS] for s in patches if FORWARDS in s.units}
        calibration = before.evidence.calibration
        samples = [*calibration.of(FIRST_PATCH), *calibration.of(PATCH)] if calibration else []
        measured = was | {sample.units[FORWARDS] for sample in samples if FORWARDS in sample.units}
        now = {self.steps - 1, self.steps}
        if len(measured) < 2:
            yield "One number of diffusion steps was measured: each is taken to cost its share of what all took."
        elif max(now) < min(measured) or min(now) > max(measured):
            yield f"{self.steps} diffusion steps lie outside of those measured: their cost is a line drawn on."
        yield "How the voice sounds with other diffusion steps is not predicted."


def _steps_of(turn: Turn) -> float | None:
    """A figure of the engine, the same on every phrase."""
    phrases = sum(name == v.TTS and v.TTS_DIFFUSION_STEPS in a for (name, _), a in turn.groups.items())
    total = described(turn, v.TTS, v.TTS_DIFFUSION_STEPS)
    return total / phrases if total and phrases else None


def _per_forward(service: Service, context: Context) -> Interval | None:
    """Seconds: by the calibration where it has several numbers of steps, else the patch's own share."""
    law = context.law(service.name or "")
    if law is not None and FORWARDS in law.coefficients:
        return law.coefficients[FORWARDS]
    part_s, forwards = service.parts_s.get(_DIFFUSION), service.units.get(FORWARDS)
    return Interval.exactly(part_s / forwards) if part_s and forwards else None


@dataclass(frozen=True)
class FirstPatchShare(Change):
    """A first patch with so much of its sound (0.5: half). What it takes above its floor stays."""

    share: float

    @property
    def label(self) -> str:
        return f"a first patch of {self.share:.0%} of its size"

    def check(self, context: Context) -> None:
        if not context.of(FIRST_PATCH):
            raise ChangeRefused(f"What {self.label} would do cannot be said: the run has no first patch.")

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        return [self._smaller(s, before) if s.name == FIRST_PATCH else s for s in services]

    def _smaller(self, service: Service, context: Context) -> Service:
        """Somewhere between all of its time that shrinks and only its floor that does."""
        took, least = service.seconds, floor(service, context.evidence)
        all_of_it = took.scaled(self.share)
        if least is None:
            low, high = min(all_of_it.low, took.low), max(all_of_it.high, took.high)
            return service.lasting(Interval(value=all_of_it.value, low=low, high=high, n=0))
        value = took.value - min(least.value, took.value) * (1 - self.share)
        slower = [took.high - min(f, took.high) * (1 - self.share) for f in (least.low, least.value, least.high)]
        found = [value, all_of_it.low, all_of_it.high, *slower]
        return service.lasting(Interval(value=value, low=min(found), high=max(found), n=least.n))

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        yield (
            "A first patch of another size was not measured, and the start buffer is taken to be full with as many "
            "patches as before."
        )


@dataclass(frozen=True)
class FewerPatches(Change):
    """Playback begins with so many patches less in its buffer, but never without the first."""

    patches: int = 1

    @property
    def label(self) -> str:
        return f"{self.patches} patch{'' if self.patches == 1 else 'es'} less before playback"

    def check(self, context: Context) -> None:
        nodes = [node for turn in context.turns for node in TurnGraph(turn).nodes]
        if not any(node.fill for node in nodes):
            raise ChangeRefused("Playback begins with the first patch of a reply in this run: there is none to spare.")

    def patches_before_sound(self, patches: int) -> int:
        return max(1, patches - self.patches)

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        yield "With a smaller start buffer playback may run dry later in the reply: that is not predicted."
