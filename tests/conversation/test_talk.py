"""A conversation over a sound device in virtual time: unplugged and back, changed between turns, stopped, recorded."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from agent import toggles
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened
from agent.scenario import Utterance
from agent.settings import load
from agent.talk import DeviceBack, DeviceLost, Talk
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.vocabulary import EndReason, Stage
from tests.fakes.edge import AWAY_S, FakeDevice
from tests.fakes.engines import fake_engines
from tests.fakes.talk import says, scenario
from tests.fakes.virtual_time import VirtualClock, run_virtually

STORY = "Once upon a time there was a dragon, and it lived in a cave by the sea with a very good friend."


class Talked:
    """What came of a conversation; `observe` may act on it as it goes."""

    def __init__(
        self,
        utterances: Sequence[Utterance],
        replies: Sequence[str],
        *,
        lost_at_s: Sequence[float] = (),
        observe: Callable[["Talked"], None] = lambda _: None,
        cancel_at_s: float | None = None,
    ) -> None:
        self.events: list[Event | DeviceLost | DeviceBack] = []
        self.user: list[NDArray[np.float32]] = []
        self.agent: list[NDArray[np.float32]] = []
        self.clock = VirtualClock()
        self.engines = fake_engines(self.clock, replies)
        self.device = FakeDevice(scenario(utterances), self.clock, self.engines.tts.sample_rate, lost_at_s)
        self._also = observe

        async def main() -> None:
            self.talk = Talk(self.device, self.engines, load(), self.clock, self._observe, self)
            task = asyncio.ensure_future(self.talk.run())
            if cancel_at_s is not None:
                await asyncio.sleep(cancel_at_s)
                task.cancel()
            try:
                await task
            finally:
                self.left = asyncio.all_tasks() - {asyncio.current_task()}
                await self.engines.workers.close()

        run_virtually(self.clock, main())

    @property
    def ended(self) -> list[TurnEnded]:
        return [event for event in self.events if isinstance(event, TurnEnded)]

    def asked(self, number: int) -> list[tuple[str, str]]:
        """What the model was asked with, without how every conversation begins."""
        messages = self.engines.llm.asked[number]  # type: ignore[attr-defined]
        return [(message.role, message.content) for message in messages[self.opening :]]

    @property
    def opening(self) -> int:
        return len(self.engines.llm.asked[0]) - 1  # type: ignore[attr-defined]

    def record(self, user: NDArray[np.float32], agent: NDArray[np.float32]) -> None:
        self.user.append(user)
        self.agent.append(agent)

    def _observe(self, event: Event | DeviceLost | DeviceBack) -> None:
        self.events.append(event)
        if not isinstance(event, DeviceLost | DeviceBack):
            self.device.observe(event)
        self._also(self)


def test_unplugged_in_a_reply_the_turn_ends_and_the_conversation_goes_on_with_its_history() -> None:
    result = Talked(
        [says("tell me a story"), says("how are you", "absolute", 9.0)], [STORY, "Fine, thank you."], lost_at_s=[3.5]
    )
    first, second = result.ended
    assert first.turn.end_reason is EndReason.STOPPED and second.turn.end_reason is EndReason.COMPLETED
    assert first.heard and STORY.startswith(first.heard)
    assert result.asked(1) == [("user", "tell me a story"), ("assistant", first.heard), ("user", "how are you")]
    assert first.turn.conversation_id == second.turn.conversation_id
    assert [first.turn.index, second.turn.index] == [1, 2]
    lost = next(event for event in result.events if isinstance(event, DeviceLost))
    assert "is gone" in lost.reason
    kinds = [type(event) for event in result.events]
    assert kinds.index(TurnEnded) < kinds.index(DeviceLost) < kinds.index(DeviceBack)


@pytest.mark.parametrize("at_s", [0.3, 0.9, 1.4, 1.6, 1.75, 1.9, 2.1, 2.4, 5.0, 6.9])
def test_it_may_be_unplugged_at_any_moment(at_s: float) -> None:
    result = Talked(
        [says("tell me a story"), says("how are you", "absolute", 14.0)], [STORY, "Fine, thank you."], lost_at_s=[at_s]
    )
    opened = [event.turn.index for event in result.events if isinstance(event, TurnOpened)]
    assert opened == sorted(ended.turn.index for ended in result.ended)
    assert result.ended[-1].transcript == "how are you" and result.ended[-1].turn.end_reason is EndReason.COMPLETED
    path = critical_path(result.ended[-1].turn)
    assert path is not None and Stage.UNATTRIBUTED not in path.totals
    assert sum(isinstance(event, DeviceLost) for event in result.events) == 1


def test_unplugged_again_and_again_it_goes_on_each_time() -> None:
    times = [2.5 + number * (AWAY_S + 1.0) for number in range(4)]
    result = Talked([says("hello", "absolute", 20.0)], ["Hello."], lost_at_s=times)
    assert sum(isinstance(event, DeviceBack) for event in result.events) == 4
    assert [ended.transcript for ended in result.ended] == ["hello"]


def test_both_sides_are_recorded_without_a_gap_and_as_they_were_played() -> None:
    result = Talked([says("hello"), says("how are you", "reply_end", 0.5)], ["Hello.", "Fine."], lost_at_s=[4.0])
    user, agent = np.concatenate(result.user), np.concatenate(result.agent)
    rate = result.engines.tts.sample_rate
    assert len(agent) == pytest.approx(len(user) * rate / 16_000, abs=rate // 50)
    origin_ns = 1_000_000_000
    for event in result.events:
        if isinstance(event, ReplyAudible):
            first = round((event.at_ns - origin_ns) / 1e9 * rate)
            assert abs(agent[first : first + rate // 100]).max() > 0.2
            assert abs(agent[first - rate // 10 : first - 2]).max() < 1e-6
    for ended in result.ended:
        starts = round((ended.turn.speech_start_ns - origin_ns) / 1e9 * 16_000)
        assert user[starts + 512] > 0.05
    played = np.concatenate(result.device.played)
    assert abs(played).sum() == pytest.approx(abs(agent).sum(), rel=1e-6)


def test_a_change_holds_from_the_next_turn_on() -> None:
    def think(result: Talked) -> None:
        if isinstance(result.events[-1], ReplyAudible) and len(result.ended) == 0:
            result.talk.change(*toggles.apply(result.talk.engines, result.talk.settings, "thinking", "32"))

    result = Talked([says("hello"), says("how are you", "reply_end")], ["Hello.", "Fine."], observe=think)
    unspoken = [ended.turn.groups[(v.LLM, None)][v.UNSPOKEN_TOKENS] for ended in result.ended]
    assert unspoken == [0, 32]
    assert result.asked(1)[:2] == [("user", "hello"), ("assistant", "Hello.")]


@pytest.mark.parametrize("way", ["stop", "cancel"])
def test_it_ends_at_once_when_the_user_ends_it_and_every_turn_is_closed(way: str) -> None:
    def stop(result: Talked) -> None:
        if way == "stop" and isinstance(result.events[-1], ReplyAudible):
            result.talk.stop()

    if way == "stop":
        result = Talked([says("tell me a story")], [STORY], observe=stop)
        assert [ended.turn.end_reason for ended in result.ended] == [EndReason.STOPPED]
        assert result.left == set()
    else:
        with pytest.raises(asyncio.CancelledError):
            Talked([says("tell me a story")], [STORY], cancel_at_s=2.4)


def test_cancelled_while_it_waits_for_the_device_it_ends() -> None:
    with pytest.raises(asyncio.CancelledError):
        Talked([says("tell me a story")], [STORY], lost_at_s=[2.4], cancel_at_s=4.0)


def test_an_observer_that_fails_ends_it_with_its_error() -> None:
    def full(result: Talked) -> None:
        if isinstance(result.events[-1], TurnEnded):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Talked([says("hello"), says("how are you", "reply_end")], ["Hello.", "Fine."], observe=full)


def test_the_device_plays_what_the_turns_say_was_heard_first() -> None:
    result = Talked([says("hello"), says("how are you", "reply_end")], ["Hello.", "Fine."])
    for one, two in pairwise(result.ended):
        assert one.turn.end_ns is not None and one.turn.end_ns < two.turn.speech_start_ns
    played, rate = np.concatenate(result.device.played), result.engines.tts.sample_rate
    loud = np.flatnonzero(np.abs(played) > 0.01)
    first_ns = result.ended[0].turn.first_audio_ns
    assert first_ns is not None and loud[0] / rate == pytest.approx((first_ns - 1e9) / 1e9, abs=0.011)
