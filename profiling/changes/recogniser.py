"""Another chunk of the recogniser."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiling.changes.change import Change, ChangeRefused, Context, Service, model
from profiling.fit import Fit
from profiling.interval import Interval
from profiling.operations import ASR_STEP, ENCODED_S, PASSES
from profiling.trace import vocabulary as v
from profiling.trace.clock import seconds
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import described
from profiling.turn_graph import insert_before


@dataclass(frozen=True)
class AsrChunk(Change):
    """A streaming recogniser hears so many seconds at a time. Without a flush the rest of the last chunk is waited for:
    half a chunk on average, less what the endpoint wait hides. `flushed` None: as the run's chunk waits tell.

    A recogniser that hears an utterance anew for every partial transcript has the chunk for their cadence only.
    """

    chunk_s: float
    flushed: bool | None = None

    @property
    def label(self) -> str:
        return f"chunks of {self.chunk_s * 1000:.0f} ms"

    def check(self, context: Context) -> None:
        if not context.of(ASR_STEP):
            raise ChangeRefused(f"What {self.label} would do cannot be said: no recognition is recorded in this run.")
        if is_streaming(context.turns) and chunk_of(context.turns) is None:
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: the run does not tell which chunks "
                f"{model(context.turns, v.ASR)} heard."
            )

    def restructured(self, turn: Turn, context: Context) -> Turn:
        final = next((step.index for step in turn.steps if step.stage is Stage.ASR_FINALIZE), None)
        waits = any(step.stage is Stage.ASR_CHUNK_WAIT for step in turn.steps)
        if final is None or waits or not is_streaming(context.turns) or self._is_flushed(context):
            return turn
        return insert_before(turn, final, Stage.ASR_CHUNK_WAIT)

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        was_s = chunk_of(before.turns)
        if not is_streaming(before.turns) or was_s is None:
            return services
        if step.stage is Stage.ASR_CHUNK_WAIT:
            return [rest_of_chunk(services[0], step, turn, self.chunk_s)]
        if services[0].name != ASR_STEP or self.chunk_s == was_s:
            return services
        final = step.stage is Stage.ASR_FINALIZE
        return [self._pass(service, was_s, final, before) for service in services]

    def _pass(self, service: Service, was_s: float, final: bool, context: Context) -> Service:
        """The last transcript keeps its passes; those before it hear the same sound in as many as it takes."""
        passes = service.units.get(PASSES, 0.0)
        if not passes:
            return service
        now = passes if final else passes * was_s / self.chunk_s
        units = {**service.units, PASSES: now, ENCODED_S: now * self.chunk_s}
        law = _law(context)
        taken = _scaled(service, now / passes, self.chunk_s / was_s) if law is None else _by(law, service, units)
        return replace(service, seconds=taken, units=units)

    def _is_flushed(self, context: Context) -> bool:
        return not waits_for_chunks(context.turns) if self.flushed is None else self.flushed

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        name = model(before.turns, v.ASR)
        if not is_streaming(before.turns):
            yield (
                f"For {name} the chunk is only the cadence of partial transcripts: what is transcribed after the "
                "end of speech does not depend on it."
            )
            return
        if self._is_flushed(before):
            yield "The recogniser is flushed at the end of speech: no chunk is waited for, of whatever size."
        else:
            yield (
                "Where in a chunk the speech ends is chance: half a chunk is waited for on average, and the interval "
                "holds all of it."
            )
        sizes = _sizes(before)
        if len(sizes) < 2:
            yield (
                "The calibration has measured one size of chunk: a pass over another is taken to cost between as much "
                "as one and as much per second of sound."
            )
        elif not min(sizes) * 0.999 <= self.chunk_s <= max(sizes) * 1.001:
            yield f"{self.label.capitalize()} lie outside of those that were calibrated: their cost is a line drawn on."
        yield "The last transcript is taken to need as many passes as before."


def is_streaming(turns: Sequence[Turn]) -> bool:
    """Whether the recogniser computes by whole chunks; only such ones have a right context."""
    return any(v.ASR_RIGHT_CONTEXT in attributes for turn in turns for attributes in turn.groups.values())


def chunk_of(turns: Sequence[Turn]) -> float | None:
    return next((found for turn in turns if (found := described(turn, v.ASR, v.ASR_CHUNK_S))), None)


def waits_for_chunks(turns: Sequence[Turn]) -> bool:
    return any(step.stage is Stage.ASR_CHUNK_WAIT for turn in turns for step in turn.steps)


def rest_of_chunk(wait: Service, step: Step, turn: Turn, chunk_s: float) -> Service:
    """From when the wait began until the chunk's end, which is anywhere in the `chunk_s` after the end of speech: where
    it had ended before, this is negative."""
    began_s = seconds(step.start_ns - (step.start_ns if turn.speech_end_ns is None else turn.speech_end_ns))
    rest = Interval(value=chunk_s / 2 - began_s, low=-began_s, high=chunk_s - began_s, n=0)
    return replace(wait, seconds=rest, by_chance=True)


def _law(context: Context) -> Fit | None:
    """The calibrated law, where chunks of several sizes were measured."""
    return context.law(ASR_STEP) if len(_sizes(context)) > 1 else None


def _sizes(context: Context) -> set[float]:
    """Seconds of sound in a pass that were measured."""
    samples = context.evidence.calibration.of(ASR_STEP) if context.evidence.calibration else []
    known = [s.units for s in samples if s.units.get(PASSES) and s.units.get(ENCODED_S)]
    return {round(units[ENCODED_S] / units[PASSES], 3) for units in known}


def _by(law: Fit, service: Service, units: Mapping[str, float]) -> Interval:
    """What was measured, and the law's difference between the two."""
    apart = np.array([0.0, *(units.get(name, 0.0) - service.units.get(name, 0.0) for name in law.names)])
    draws = law.draws @ apart
    more = Interval.of_draws(law.at(units) - law.at(service.units), list(map(float, draws)), law.n)
    was = service.seconds
    return Interval(
        value=max(0.0, was.value + more.value),
        low=max(0.0, was.low + more.low),
        high=max(0.0, was.high + more.high),
        n=law.n,
    )


def _scaled(service: Service, passes: float, sound: float) -> Interval:
    """So many times the passes, each over so many times the sound: each costs as much, or as much per second."""
    as_much, per_second = service.seconds.scaled(passes), service.seconds.scaled(passes * sound)
    return Interval(
        value=(as_much.value + per_second.value) / 2,
        low=min(as_much.low, per_second.low),
        high=max(as_much.high, per_second.high),
        n=service.seconds.n,
    )
