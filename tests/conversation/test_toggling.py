"""Keys that change the pipeline between turns of a conversation in virtual time, and what is told of their effect."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from agent.cli.toggling import Toggling
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened
from agent.settings import load
from agent.talk import DeviceBack, DeviceLost, Talk
from tests.fakes.edge import FakeDevice
from tests.fakes.engines import fake_engines
from tests.fakes.talk import says, scenario
from tests.fakes.virtual_time import VirtualClock, run_virtually


def talk_with_keys(keys: Sequence[str], press: Callable[[Event], bool]) -> tuple[list[str | None], list[str], str]:
    """Three questions; at each event that `press` likes the next key is pressed. Gives the effect told of each turn,
    the sentences said, and what the bottom line shows of thinking and chunk at the end."""
    clock, said, effects, left = VirtualClock(), list[str](), list[str | None](), [*keys]
    engines = fake_engines(clock, ["Hello.", "Fine.", "Ten."])
    questions = [says("hello"), says("how are you", "reply_end"), says("what is the time", "reply_end")]
    device = FakeDevice(scenario(questions), clock, engines.tts.sample_rate)
    tasks: list[asyncio.Task[None]] = []

    async def main() -> str:
        def observe(event: Event | DeviceLost | DeviceBack) -> None:
            assert not isinstance(event, DeviceLost | DeviceBack)
            device.observe(event)
            toggling.observe(event)
            if isinstance(event, TurnEnded):
                effects.append(toggling.effect(event.turn))
            if press(event) and left:
                tasks.append(asyncio.create_task(toggling.turn(left.pop(0))))

        talk = Talk(device, engines, load(), clock, observe)
        toggling = Toggling(talk, clock, said.append)
        await talk.run()
        await asyncio.gather(*tasks)
        await toggling.close()
        await engines.workers.close()
        return f"{toggling.shown('t')}, {toggling.shown('c')}"

    return effects, said, run_virtually(clock, main())


def test_the_effect_is_told_of_the_first_turn_after_the_change_and_of_no_other() -> None:
    effects, said, shown = talk_with_keys(["t"], lambda event: isinstance(event, TurnEnded) and event.turn.index == 1)
    assert effects[0] is None and effects[2] is None
    assert effects[1] is not None and effects[1].startswith("thinking off -> 32: +3")
    assert "of it LLM thinking +320" in effects[1]
    assert said == [] and shown.startswith("thinking 32")


def test_a_key_while_a_turn_is_under_way_counts_from_the_next_one_on() -> None:
    effects, _, _ = talk_with_keys(["t"], lambda event: isinstance(event, TurnOpened) and event.turn.index == 2)
    assert effects[:2] == [None, None]
    assert effects[2] is not None and "LLM thinking +320" in effects[2]


def test_two_changes_at_once_are_told_together() -> None:
    effects, _, shown = talk_with_keys(["t", "c"], lambda event: isinstance(event, ReplyAudible | TurnEnded))
    assert effects[1] is not None and effects[1].startswith("thinking off -> 32, chunk")
    assert shown != "thinking off, chunk (ms) 320"


def test_going_round_all_choices_comes_back_to_the_first() -> None:
    effects, _, shown = talk_with_keys(["t"] * 4, lambda event: isinstance(event, TurnOpened | ReplyAudible))
    assert shown.startswith("thinking off")
    assert effects[0] is None


def test_what_cannot_be_changed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.toggles._stored", lambda stage: [])
    effects, said, _ = talk_with_keys(["v"], lambda event: isinstance(event, TurnEnded))
    assert effects == [None, None, None]
    assert said == ["This machine has no other voice: `turnscope models` lists what there is."]


def test_another_voice_is_not_loaded_while_a_turn_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.toggles._stored", lambda stage: ["other"] if stage == "tts" else [])
    monkeypatch.setattr("agent.toggles._can_run", lambda settings, stage, model: True)
    _, said, _ = talk_with_keys(["v"], lambda event: isinstance(event, TurnOpened))
    assert said == ["The voice changes between turns: try again when the reply has ended."]
