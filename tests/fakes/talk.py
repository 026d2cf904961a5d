"""Runs a whole conversation with fake engines in virtual time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.audio.wav import Recording
from agent.engines import Engines
from agent.events import Event, TurnEnded
from agent.replay import ScenarioStarted, replay
from agent.scenario import Scenario, Utterance
from agent.settings import Settings, load
from tests.fakes.engines import fake_engines, silence, speech
from tests.fakes.virtual_time import VirtualClock, run_virtually


@dataclass
class Talk:
    """What came of a conversation: `user` and `agent` are the two recorded tracks."""

    clock: VirtualClock
    engines: Engines
    events: list[Event] = field(default_factory=list[Event])
    user: list[NDArray[np.float32]] = field(default_factory=list[NDArray[np.float32]])
    agent: list[NDArray[np.float32]] = field(default_factory=list[NDArray[np.float32]])

    @property
    def ended(self) -> list[TurnEnded]:
        return [event for event in self.events if isinstance(event, TurnEnded)]

    @property
    def agent_track(self) -> NDArray[np.float32]:
        return np.concatenate(self.agent)

    def observe(self, event: Event | ScenarioStarted) -> None:
        if not isinstance(event, ScenarioStarted):
            self.events.append(event)

    def record(self, user: NDArray[np.float32], agent: NDArray[np.float32]) -> None:
        self.user.append(user)
        self.agent.append(agent)


def says(
    text: str, after: str = "absolute", delay_s: float = 0.5, pause_s: float = 0.3, known: bool = True
) -> Utterance:
    """An utterance of fake speech followed by a little silence."""
    samples = np.concatenate([speech(text), silence(pause_s)])
    return utterance(samples, after, delay_s, len(speech(text)) / 16_000 if known else None, text)


def utterance(
    samples: NDArray[np.float32], after: str, delay_s: float, last_voiced_s: float | None, text: str | None = None
) -> Utterance:
    return Utterance(
        recording=Recording(Path("fake.wav"), samples, CAPTURE_RATE_HZ, 1, "FLOAT"),
        speaker="fake",
        synthetic=True,
        licence="CC0-1.0",
        transcript=text,
        last_voiced_s=last_voiced_s,
        after=after,  # type: ignore[arg-type]
        delay_s=delay_s,
    )


def scenario(utterances: Sequence[Utterance]) -> Scenario:
    return Scenario("fake", "", "en", "CC0-1.0", None, expect_turns=len(utterances), utterances=tuple(utterances))


def talk(
    utterances: Sequence[Utterance],
    replies: Sequence[str] = (),
    settings: Settings | None = None,
    prepare: Callable[[Talk], None] | None = None,
) -> Talk:
    """One conversation. `prepare` may change the engines before it begins."""
    return talk_through([scenario(utterances)], replies, settings, prepare)


def talk_through(
    scenarios: Sequence[Scenario],
    replies: Sequence[str] = (),
    settings: Settings | None = None,
    prepare: Callable[[Talk], None] | None = None,
) -> Talk:
    clock, settings = VirtualClock(), settings or load()
    result = Talk(clock, fake_engines(clock, replies, settings.asr.chunk_ms))
    if prepare:
        prepare(result)

    async def main() -> None:
        try:
            await replay(scenarios, result.engines, settings, clock, result.observe, result)
        finally:
            await result.engines.workers.close()

    run_virtually(clock, main())
    return result
