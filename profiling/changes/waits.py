"""Another silence after which a turn is taken for finished, or none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from profiling.changes.change import Change, ChangeRefused, Context, Service
from profiling.changes.recogniser import chunk_of, rest_of_chunk, waits_for_chunks
from profiling.interval import Interval
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import described

_FRAME_S = 0.032  # a silence ends with a frame of the voice detector (Silero: 512 samples at 16 kHz)
_LONGEST = "max_hangover"


@dataclass(frozen=True)
class Hangover(Change):
    """The silence after which the turn ends, or after which smart-turn is asked first. It ends with a frame of the
    voice detector, up to 32 ms later.

    A silence that was chosen after an answer, and one after which smart-turn was asked again, keep their place on the
    way from the hangover to the longest one."""

    hangover_s: float

    @property
    def label(self) -> str:
        return f"a hangover of {self.hangover_s * 1000:.0f} ms"

    def check(self, context: Context) -> None:
        if not any(_measured_s(step, turn) is not None for turn in context.turns for step in turn.steps):
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: no turn of this run was ended, or asked "
                "about, after a fixed silence."
            )

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        if _is_hidden(step, services) and self._is_shorter(turn):
            return [_hidden_chunk(services[0], step, turn, chunk_of(before.turns))]
        was_s = _measured_s(step, turn)
        if was_s is None:
            return services
        (wait,) = services
        before_s = sum(self._later_s(other, turn) for other in _wait_before(step, turn))
        if _is_followed(step, turn):
            return [wait.lasting(Interval.exactly(max(0.0, wait.seconds.value + self._later_s(step, turn) - before_s)))]
        shortest_s = max(0.0, wait.seconds.value - was_s + self._due_s(step, turn) - before_s)
        bounds = Interval(value=shortest_s + _FRAME_S / 2, low=shortest_s, high=shortest_s + _FRAME_S, n=0)
        return [replace(wait, seconds=bounds, by_chance=True)]

    def _later_s(self, step: Step, turn: Turn) -> float:
        """How much later than it did a wait would end that others follow."""
        return self._due_s(step, turn) - float(cast(float, step.attributes.get(v.ENDPOINT_WAIT_S, self.hangover_s)))

    def _due_s(self, step: Step, turn: Turn) -> float:
        """The silence to which this wait would last."""
        was_s = step.attributes.get(v.ENDPOINT_WAIT_S)
        shortest_s = described(turn, v.ENDPOINT, v.ENDPOINT_SHORTEST_S)
        longest_s = described(turn, v.ENDPOINT, v.ENDPOINT_LONGEST_S)
        if not isinstance(was_s, float) or shortest_s is None or longest_s is None or longest_s <= shortest_s:
            return self.hangover_s
        part = max(0.0, was_s - shortest_s) / (longest_s - shortest_s)
        return self.hangover_s + part * max(0.0, longest_s - self.hangover_s)

    def _is_shorter(self, turn: Turn) -> bool:
        known = (described(turn, v.ENDPOINT, key) for key in (v.ENDPOINT_SHORTEST_S, v.ENDPOINT_HANGOVER_S))
        return next((was_s for was_s in known if was_s is not None), 0.0) > self.hangover_s

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        longest = sum(_kind(turn) == _LONGEST for turn in before.turns)
        if longest:
            yield f"{longest} of {len(before.turns)} turns ended by the longest hangover, which this does not change."
        if any(_kind(turn) in ("smart_turn", "chosen_hangover") for turn in before.turns):
            yield "Smart-turn is taken to judge as it did, although it would hear another silence."
        if any(self._is_shorter(turn) for turn in before.turns):
            yield "A shorter hangover cuts more sentences off: that is not predicted."
        yield from _about_chunks(before)


@dataclass(frozen=True)
class NoEndpointWait(Change):
    """As if the end of speech were known at once."""

    @property
    def label(self) -> str:
        return "no endpoint wait"

    def check(self, context: Context) -> None:
        if not any(_is_last_wait(step, turn) for turn in context.turns for step in turn.steps):
            raise ChangeRefused("No turn of this run has an endpoint wait: without one nothing would change.")

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        if _is_hidden(step, services):
            return [_hidden_chunk(services[0], step, turn, chunk_of(before.turns))]
        gone = _is_last_wait(step, turn) or _is_while_waiting(step, turn)
        return [s.lasting(Interval.exactly(0.0)) for s in services] if gone else services

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        yield "No agent knows the end of a sentence at once: this is what the wait costs, not what can be had."
        yield from _about_chunks(before)


def _about_chunks(context: Context) -> Iterator[str]:
    if waits_for_chunks(context.turns):
        yield (
            "What of a chunk's wait was hidden by the endpoint wait is not recorded: it is taken to be half of what it "
            "could be."
        )


def _is_last_wait(step: Step, turn: Turn) -> bool:
    """Not one inside the sentence, after which the user went on."""
    return step.stage is Stage.ENDPOINT_WAIT and turn.speech_end_ns is not None and step.end_ns >= turn.speech_end_ns


def _wait_before(step: Step, turn: Turn) -> Sequence[Step]:
    """The wait of the same silence that this one goes on from, if any."""
    return [turn.steps[cause] for cause in step.causes if turn.steps[cause].stage is Stage.ENDPOINT_WAIT]


def _is_followed(step: Step, turn: Turn) -> bool:
    """It was waited on after this wait, or after this answer."""
    return any(later.stage is Stage.ENDPOINT_WAIT for later in turn.steps[step.index + 1 :])


def _is_while_waiting(step: Step, turn: Turn) -> bool:
    """An answer after which it was waited on, or a transcript that was made because of one."""
    if step.stage is Stage.ASR_PARTIAL:
        return any(turn.steps[cause].stage is Stage.SMART_TURN for cause in step.causes)
    return step.stage is Stage.SMART_TURN and _is_followed(step, turn)


def _kind(turn: Turn) -> str | None:
    kind = turn.groups.get((v.ENDPOINT, None), {}).get(v.ENDPOINT_KIND)
    return kind if isinstance(kind, str) else None


def _measured_s(step: Step, turn: Turn) -> float | None:
    """The silence at the end of this wait; None for one that the change leaves as it is."""
    if not _is_last_wait(step, turn) or step.attributes.get(v.WHAT, _kind(turn)) == _LONGEST or _kind(turn) == _LONGEST:
        return None
    own_s = step.attributes.get(v.ENDPOINT_HANGOVER_S)
    return own_s if isinstance(own_s, float) else described(turn, v.ENDPOINT, v.ENDPOINT_HANGOVER_S)


def _is_hidden(step: Step, services: Sequence[Service]) -> bool:
    """The wait for a chunk that ended during the endpoint wait, and of which no other change has said when."""
    return step.stage is Stage.ASR_CHUNK_WAIT and not step.duration_ns and not services[0].by_chance


def _hidden_chunk(wait: Service, step: Step, turn: Turn, chunk_s: float | None) -> Service:
    """A chunk that had ended before the decision: somewhere between the end of speech and then."""
    if chunk_s is None or turn.speech_end_ns is None:
        return wait
    return rest_of_chunk(wait, step, turn, min(chunk_s, max(0, step.start_ns - turn.speech_end_ns) / 1e9))
