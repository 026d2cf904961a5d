"""What the endpoint did in one utterance, put on its turn: the waits, the decisions, and what each of them cost."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.audio.sample_clock import Packet, SampleTimes
from agent.listening.end_of_turn import EndOfTurn
from agent.listening.endpoint import Decision, Kind, SilenceAsked, SpeechEnded
from profiling.trace import vocabulary as v
from profiling.trace.clock import seconds
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import Stage


@dataclass(frozen=True)
class Moment:
    """A packet: when it arrived by the capture's clock, when the VAD took it up, and when that had judged it."""

    packet: Packet
    arrived_ns: int
    started_ns: int
    judged_ns: int


class EndpointTrail:
    """`speech_end_ns(sample)` is S for the VAD's estimate of the last voiced sample. The waits of one silence follow
    each other without a gap, the first from S on."""

    def __init__(self, turn: Turn, capture: SampleTimes, rule: EndOfTurn, speech_end_ns: Callable[[int], int]):
        self._turn = turn
        self._capture = capture
        self._rule = rule
        self._speech_end_ns = speech_end_ns
        self._last_voiced: int | None = None
        self._wait: int | None = None
        self._decisions: list[tuple[Decision, int]] = []
        self._pauses = 0

    def waited(self, event: SilenceAsked | SpeechEnded, moment: Moment, what: str) -> int:
        """The wait up to the packet that asked or decided, and the VAD's work on that packet, whose step is
        returned."""
        turn, end_ns = self._turn, moment.arrived_ns
        self._enter(event.last_voiced_sample)
        start_ns = self._speech_end_ns(event.last_voiced_sample)
        if self._wait is not None:
            start_ns = turn.steps[self._wait].end_ns
        facts: dict[str, Attribute] = {
            v.WHAT: what,
            v.ENDPOINT_WAIT_S: event.after_s,
            v.ENDPOINT_HANGOVER_S: self._silence_s(end_ns),
        }
        before = self._wait
        self._wait = turn.add(Stage.ENDPOINT_WAIT, min(start_ns, end_ns), end_ns, [before], attributes=facts)
        return turn.add(Stage.VAD, moment.started_ns, moment.judged_ns, [self._wait])

    def decided(self, last_voiced_sample: int, decision: Decision, at_ns: int) -> None:
        self._enter(last_voiced_sample)
        self._decisions.append((decision, at_ns))

    def ended(self, last_voiced_sample: int, kind: Kind, silence_ended_ns: int, decided_ns: int) -> None:
        """The silence that ended the turn was this long when the packet arrived that ended it; the turn was taken for
        finished at `decided_ns`."""
        self._enter(last_voiced_sample)
        facts: dict[str, Attribute] = {
            v.ENDPOINT_KIND: kind,
            v.ENDPOINT_HANGOVER_S: self._silence_s(silence_ended_ns),
            v.ENDPOINT_SHORTEST_S: self._rule.shortest_s,
        }
        if kind != "hangover":
            facts |= {v.ENDPOINT_LONGEST_S: self._rule.longest_s, v.ENDPOINT_PAUSES: self._pauses}
        if self._decisions:
            made = [decision for decision, _ in self._decisions]
            facts |= {
                v.ENDPOINT_PROBABILITY: made[-1].probability,
                v.ENDPOINT_TEXT: made[-1].text.value,
                v.ENDPOINT_DECIDED_AT_S: [self._silence_s(at_ns) for _, at_ns in self._decisions],
                v.ENDPOINT_DECIDED_PROBABILITY: [decision.probability for decision in made],
                v.ENDPOINT_DECIDED_TEXT: [decision.text.value for decision in made],
                v.ENDPOINT_DECIDED_WAIT_S: [decision.wait_s for decision in made],
                v.ENDPOINT_DECIDED_COST_S: [max(0.0, seconds(decided_ns - at_ns)) for _, at_ns in self._decisions],
            }
        self._turn.describe(v.ENDPOINT, facts)

    def _enter(self, last_voiced_sample: int) -> None:
        """A new silence begins where the last voiced sample is another."""
        if last_voiced_sample != self._last_voiced:
            self._pauses += bool(self._decisions)
            self._last_voiced, self._wait, self._decisions = last_voiced_sample, None, []

    def _silence_s(self, until_ns: int) -> float:
        return seconds(until_ns - self._capture.ns_of(self._last_voiced or 0))
