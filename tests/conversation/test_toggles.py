"""What can be changed between turns, and when a change takes effect."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from agent import toggles
from agent.audio.output_track import OutputTrack
from agent.audio.sample_clock import CAPTURE_RATE_HZ, SampleClock
from agent.conversation import Conversation
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened
from agent.models.table import ModelRow
from agent.replay import ScenarioPlayer
from agent.settings import Settings, load
from agent.toggles import Toggle
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, fake_engines
from tests.fakes.talk import says, scenario
from tests.fakes.virtual_time import VirtualClock, run_virtually

MODELS = {"asr": {"model": "moonshine-base-en"}, "llm": {"model": "smollm2-135m"}, "tts": {"model": "piper-en-us-joe"}}
SAID = [says("hello how are you"), says("tell me a story", "reply_end", 0.3), says("stop", "reply_end", 0.3)]


def settings() -> Settings:
    return load(flags=MODELS)


def by_name(engines: Engines, chosen: Settings) -> dict[str, Toggle]:
    return {toggle.name: toggle for toggle in toggles.toggles(engines, chosen)}


def turns_with(change: Callable[[Conversation, Engines, Settings, Event], None]) -> list[Turn]:
    """The turns of a conversation of three utterances in which `change` sees every event."""
    clock, chosen = VirtualClock(), settings()
    engines = fake_engines(clock, ["Fine, thank you.", "Once upon a time.", "Yes."])
    capture = SampleClock(clock.now_ns(), CAPTURE_RATE_HZ)
    track = OutputTrack(SampleClock(clock.now_ns(), engines.tts.sample_rate))
    player, ended = ScenarioPlayer(scenario(SAID), clock, capture), []

    def observe(event: Event) -> None:
        player.observe(event)
        change(conversation, engines, chosen, event)
        if isinstance(event, TurnEnded):
            ended.append(event.turn)

    conversation = Conversation(engines, chosen, clock, capture, track, observe, player.true_speech_end)

    async def main() -> None:
        try:
            await conversation.run(player.packets())
        finally:
            await engines.workers.close()

    run_virtually(clock, main())
    assert [turn.end_reason for turn in ended] == [EndReason.COMPLETED] * 3
    return ended


def unspoken(turn: Turn) -> object:
    return turn.groups[(v.LLM, None)][v.UNSPOKEN_TOKENS]


def model(turn: Turn, group: str, phrase: int | None = None) -> object:
    return turn.groups[(group, phrase)][v.MODEL]


@pytest.mark.parametrize("when", [TurnOpened, ReplyAudible])
def test_a_change_while_a_turn_is_open_or_answered_takes_effect_on_the_next_one(when: type[Event]) -> None:
    def think(conversation: Conversation, engines: Engines, chosen: Settings, event: Event) -> None:
        if isinstance(event, when) and event.turn.index == 2:
            conversation.change(*toggles.apply(engines, chosen, "thinking", "32"))

    assert [unspoken(turn) for turn in turns_with(think)] == [0, 0, 32]


def test_a_change_between_turns_takes_effect_on_the_next_one() -> None:
    def think(conversation: Conversation, engines: Engines, chosen: Settings, event: Event) -> None:
        if isinstance(event, TurnEnded) and event.turn.index == 1:
            conversation.change(*toggles.apply(engines, chosen, "thinking", "32"))

    assert [unspoken(turn) for turn in turns_with(think)] == [0, 32, 32]


def test_every_engine_of_a_turn_is_the_one_it_began_with() -> None:
    def swap(conversation: Conversation, engines: Engines, chosen: Settings, event: Event) -> None:
        if isinstance(event, TurnOpened) and event.turn.index == 2:
            others = {stage: replace(getattr(engines, stage), model="other") for stage in ("asr", "llm", "tts")}
            conversation.change(replace(engines, **others), chosen)

    turns = turns_with(swap)
    for group, phrase, own in ((v.ASR, None, "fake-asr"), (v.LLM, None, "fake-llm"), (v.TTS, 0, "fake-tts")):
        assert [model(turn, group, phrase) for turn in turns] == [own, own, "other"]


def test_other_endpoint_settings_count_from_the_next_turn_on() -> None:
    def wait(conversation: Conversation, engines: Engines, chosen: Settings, event: Event) -> None:
        if isinstance(event, TurnOpened) and event.turn.index == 1:
            conversation.change(engines, load(flags=MODELS | {"endpoint": {"mode": "hangover", "hangover_s": 0.7}}))

    kinds = [turn.groups[(v.ENDPOINT, None)][v.ENDPOINT_KIND] for turn in turns_with(wait)]
    assert kinds == ["smart_turn", "hangover", "hangover"]


def test_a_chunk_gives_another_engine_and_leaves_the_first_as_it_is() -> None:
    engines, chosen = fake_engines(VirtualClock()), settings()
    other, changed = toggles.apply(engines, chosen, "chunk", "1120")
    assert (engines.asr.chunk_end(1), other.asr.chunk_end(1)) == (5120, 17_920)
    assert changed.asr.chunk_ms == 1120 and chosen.asr.chunk_ms == 320
    assert by_name(other, changed)["chunk"].value == "1120"


@dataclass
class DiffusionVoice(FakeTts):
    diffusion_steps: int = 10

    def with_diffusion_steps(self, steps: int) -> "DiffusionVoice":
        return replace(self, diffusion_steps=steps)


def test_diffusion_steps_are_a_matter_of_voices_that_have_them() -> None:
    engines, chosen = fake_engines(VirtualClock()), settings()
    assert by_name(engines, chosen)["diffusion_steps"].unavailable == "fake-tts has no diffusion steps."
    with pytest.raises(TurnscopeError, match="has no diffusion steps"):
        toggles.apply(engines, chosen, "diffusion_steps", "4")
    patient = replace(engines, tts=DiffusionVoice(VirtualClock()))
    other, changed = toggles.apply(patient, chosen, "diffusion_steps", "4")
    assert isinstance(other.tts, DiffusionVoice) and other.tts.diffusion_steps == changed.tts.diffusion_steps == 4
    assert by_name(other, changed)["diffusion_steps"].value == "4"


def test_the_value_at_hand_is_always_among_the_choices() -> None:
    odd = load(flags=MODELS | {"asr": {"model": "moonshine-base-en", "chunk_ms": 333}, "llm": {"thinking_tokens": 77}})
    known = by_name(fake_engines(VirtualClock()), odd)
    assert known["chunk"].value == "333" in known["chunk"].choices
    assert known["thinking"].value == "77" in known["thinking"].choices


def test_a_thought_that_does_not_fit_the_context_is_refused() -> None:
    engines = fake_engines(VirtualClock())
    engines.llm.context_tokens = 300  # type: ignore[misc]
    with pytest.raises(TurnscopeError, match="do not fit into the context of 300 tokens"):
        toggles.apply(engines, settings(), "thinking", "128")


@pytest.mark.parametrize(
    ("name", "choice", "why"),
    [
        ("colour", "red", "There is no toggle 'colour': choose thinking, chunk"),
        ("chunk", "77", "The chunk .* cannot be '77': choose 80, 160, 320, 560 or 1120"),
        ("thinking", "2", "choose off, 32, 128 or on"),
    ],
)
def test_what_is_no_choice_is_a_sentence(name: str, choice: str, why: str) -> None:
    with pytest.raises(TurnscopeError, match=why):
        toggles.apply(fake_engines(VirtualClock()), settings(), name, choice)


def a_row(name: str, stage: str, present: str = "yes") -> ModelRow:
    return ModelRow(name, stage, "", "", 1, present, "")  # type: ignore[arg-type]


def test_models_on_this_machine_are_shared_and_need_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [a_row("smollm2-135m", "llm"), a_row("gemma-4-12b", "llm"), a_row("piper-en-us-joe", "tts")]
    stored += [a_row("moonshine-base-en", "asr"), a_row("voxcpm2", "tts", "no"), a_row("nemotron", "asr", "damaged")]
    monkeypatch.setattr("agent.models.list_models", lambda: stored)
    clock = VirtualClock()
    engines = replace(
        fake_engines(clock),
        asr=FakeAsr(clock, model="moonshine-base-en"),
        llm=FakeLlm(clock, model="smollm2-135m"),
        tts=FakeTts(clock, model="piper-en-us-joe"),
    )
    known = by_name(engines, settings())
    assert known["model"] == Toggle(
        "model", "language model", ("smollm2-135m", "gemma-4-12b"), "smollm2-135m", shared=True, needs_loading=True
    )
    assert known["voice"].unavailable and "no other voice" in known["voice"].unavailable
    assert known["recogniser"].choices == ("moonshine-base-en",)
    assert [name for name, toggle in known.items() if toggle.shared] == ["recogniser", "model", "voice"]
    with pytest.raises(TurnscopeError, match="has to be loaded first"):
        toggles.apply(engines, settings(), "model", "gemma-4-12b")
    assert toggles.apply(engines, settings(), "model", "smollm2-135m")[0] is engines
    monkeypatch.setattr(toggles, "load_llm", lambda chosen, *_: FakeLlm(clock, model=str(chosen.llm.model)))
    other, changed = toggles.load(engines, settings(), "model", "gemma-4-12b", clock)
    assert other.llm.model == changed.llm.model == "gemma-4-12b" and other.asr is engines.asr


def test_a_voice_of_another_rate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [a_row("piper-en-us-joe", "tts"), a_row("piper-other", "tts")]
    monkeypatch.setattr(
        "agent.models.list_models", lambda: [*stored, a_row("moonshine-base-en", "asr"), a_row("smollm2-135m", "llm")]
    )
    clock = VirtualClock()
    engines = replace(fake_engines(clock), tts=FakeTts(clock, model="piper-en-us-joe"))
    monkeypatch.setattr(toggles, "load_tts", lambda *_: FakeTts(clock, sample_rate=48_000))
    with pytest.raises(TurnscopeError, match="speaks at 48000 Hz"):
        toggles.load(engines, settings(), "voice", "piper-other", clock)
