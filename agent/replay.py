"""Plays scenarios into a conversation at the pace of its clock, and records both sides."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.audio.output_track import OutputTrack
from agent.audio.pace import sleep_until
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock, SampleTimes
from agent.both_sides import PACKET_SAMPLES, BothSides, Recorder
from agent.conversation import Conversation
from agent.engines import Engines
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened
from agent.scenario import Scenario, Utterance
from agent.settings import Settings
from profiling.trace.clock import Clock

NEAR_S = 0.6  # a turn whose speech ends this close to an utterance's last voiced sample is that utterance's last
SETTLED_S = 0.5  # so long after an utterance no turn will open that belongs to it
PATIENCE_S = 10.0  # how long after an utterance a turn is waited for, where one is expected
QUIET_S = 2.5  # and where none is
CLOSING_S = 0.4  # silence at the end of a scenario


@dataclass(frozen=True)
class ScenarioStarted:
    """A scenario begins to play."""

    scenario: Scenario


@dataclass
class _Played:
    """An utterance that has been scheduled, on the capture's sample clock."""

    utterance: Utterance
    start_sample: int

    @property
    def end_sample(self) -> int:
        return self.start_sample + len(self.utterance.recording.samples)

    @property
    def last_voiced_sample(self) -> int | None:
        known = self.utterance.last_voiced_sample
        return None if known is None else self.start_sample + known


class ScenarioPlayer:
    """The scenario's user: speaks each utterance when its time has come. Feed it the conversation's events. Its time
    begins when the first packet is asked for."""

    def __init__(self, scenario: Scenario, clock: Clock, capture: SampleTimes):
        self._scenario = scenario
        self._clock = clock
        self._capture = capture
        self._next = self._origin = 0
        self._waiting = list(scenario.utterances)
        self._played: list[_Played] = []
        self._open_turns: set[int] = set()
        self._reply_start: int | None = None
        self._last_end: int | None = None  # of a turn since the last utterance began
        self._last_speech_end = 0
        self.turns = 0

    def observe(self, event: Event) -> None:
        match event:
            case TurnOpened(turn):
                self._open_turns.add(turn.index)
            case ReplyAudible(_, at_ns):
                self._reply_start = self._capture.sample_at(at_ns)
            case TurnEnded(turn):
                self.turns += 1
                self._open_turns.discard(turn.index)
                self._last_end = self._capture.sample_at(turn.end_ns or self._clock.now_ns())
                self._last_speech_end = max(self._last_speech_end, self._capture.sample_at(turn.speech_end_ns or 0))
            case _:
                pass

    def true_speech_end(self, sample: int) -> int | None:
        """The last voiced sample that the scenario states for the utterance that ends near this sample."""
        for played in reversed(self._played):
            known = played.last_voiced_sample
            if known is not None and abs(known - sample) <= NEAR_S * CAPTURE_RATE_HZ:
                return known
        return None

    async def packets(self) -> AsyncIterator[Packet]:
        """Packets of 20 ms, each at the moment when its last sample has been captured."""
        now = self._capture.sample_at(self._clock.now_ns())
        self._next = self._origin = now + -now % PACKET_SAMPLES
        while not self._over():
            await sleep_until(self._clock, self._capture.ns_of(self._next + PACKET_SAMPLES))
            self._schedule()
            packet = Packet(self._next, self._mix(self._next))
            self._next += PACKET_SAMPLES
            yield packet

    def _schedule(self) -> None:
        """Start the next utterance if it is due before the end of the packet at hand."""
        if self._waiting and (due := self._due(self._waiting[0])) is not None and due < self._next + PACKET_SAMPLES:
            self._played.append(_Played(self._waiting.pop(0), max(due, self._next)))
            self._reply_start = self._last_end = None

    def _due(self, utterance: Utterance) -> int | None:
        delay = round(utterance.delay_s * CAPTURE_RATE_HZ)
        if utterance.after == "absolute":
            return max(self._origin + delay, self._played[-1].end_sample if self._played else 0)
        cause = self._reply_start if utterance.after == "reply_start" else None
        if cause is None:
            cause = self._reply_end()
        return None if cause is None else cause + delay

    def _reply_end(self) -> int | None:
        """When the last utterance has been dealt with: its last turn has ended, or no turn came of it in good time."""
        if not self._played or self._open_turns:
            return None
        last = self._played[-1]
        if self._last_end is not None:
            known = last.last_voiced_sample
            answered = known is not None and self._last_speech_end >= known - NEAR_S * CAPTURE_RATE_HZ
            settled = self._next >= last.end_sample + SETTLED_S * CAPTURE_RATE_HZ
            return self._last_end if answered or settled else None
        expected = self._waiting or self._scenario.expect_turns
        deadline = last.end_sample + round((PATIENCE_S if expected else QUIET_S) * CAPTURE_RATE_HZ)
        return deadline if self._next >= deadline else None

    def _over(self) -> bool:
        if self._waiting or (self._played and self._next < self._played[-1].end_sample):
            return False
        end = self._reply_end()
        return not self._played or (end is not None and self._next >= end + CLOSING_S * CAPTURE_RATE_HZ)

    def _mix(self, start: int) -> NDArray[np.float32]:
        out = np.zeros(PACKET_SAMPLES, np.float32)
        for played in self._played[-2:]:
            first, last = max(start, played.start_sample), min(start + PACKET_SAMPLES, played.end_sample)
            if first < last:
                out[first - start : last - start] = played.utterance.recording.samples[
                    first - played.start_sample : last - played.start_sample
                ]
        return out


async def replay(
    scenarios: Sequence[Scenario],
    engines: Engines,
    settings: Settings,
    clock: Clock,
    observe: Callable[[Event | ScenarioStarted], None],
    recorder: Recorder | None = None,
) -> dict[str, int]:
    """Play the scenarios one after another, each as a conversation of its own, on one pair of sample clocks.

    Returns the number of turns of each scenario, by name and in order.
    """
    origin_ns = clock.now_ns()
    capture = SampleClock(origin_ns, CAPTURE_RATE_HZ)
    track = OutputTrack(SampleClock(origin_ns, engines.tts.sample_rate))
    sides = BothSides(capture, track, recorder) if recorder else None
    turns: dict[str, int] = {}
    for scenario in scenarios:
        player = ScenarioPlayer(scenario, clock, capture)

        def tell(event: Event, player: ScenarioPlayer = player) -> None:
            player.observe(event)
            observe(event)

        observe(ScenarioStarted(scenario))
        conversation = Conversation(engines, settings, clock, capture, track, tell, player.true_speech_end)
        try:
            await conversation.run(sides.follow(player.packets()) if sides else player.packets())
        finally:
            if sides:
                sides.fill(capture.sample_at(clock.now_ns()))
        turns[scenario.name] = turns.get(scenario.name, 0) + player.turns
    return turns
