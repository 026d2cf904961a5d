"""What a turn records of its engines' work: chunks and their parts, bytes read, patches by part, and the chunk wait."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from agent.audio.output_track import OutputTrack
from agent.audio.pace import sleep_until
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock
from agent.conversation import Conversation
from agent.events import Event, TurnEnded
from agent.listening.end_of_turn import EndOfTurn
from agent.listening.endpoint_trail import EndpointTrail
from agent.listening.utterance import Utterance
from agent.llm.history import new_history
from agent.llm.protocol import Message, Token
from agent.settings import load
from agent.thinking import tag_tokens
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import loop_ns
from tests.fakes.engines import FakeLlm, fake_engines, silence, speech
from tests.fakes.talk import Talk, says, scenario, talk, talk_through
from tests.fakes.virtual_time import VirtualClock, run_virtually

WORDS = "hello how are you today"


def steps(ended: TurnEnded, stage: Stage) -> list[Step]:
    return [step for step in ended.turn.steps if step.stage is stage]


def test_every_pass_of_the_recogniser_and_its_parts() -> None:
    (ended,) = talk([says(WORDS)], ["Fine."]).ended
    partials, (final,) = steps(ended, Stage.ASR_PARTIAL), steps(ended, Stage.ASR_FINALIZE)
    for step in (*partials, final):
        assert loop_ns(step) == [step.duration_ns // 2] * 2
        assert step.attributes[v.ASR_PART_NS.format("encoder")] == (step.duration_ns // 4,) * 2
    group = ended.turn.groups[(v.ASR, None)]
    assert group[v.ASR_CHUNKS] == 2 * (len(partials) + 1) and group[v.ASR_EMPTY] == 0
    assert ended.turn.speech_end_ns is not None
    assert group[v.ASR_FINAL_AFTER_S] == pytest.approx((final.end_ns - ended.turn.speech_end_ns) / 1e9)


def test_an_empty_transcript_is_counted() -> None:
    def deaf(result: Talk) -> None:
        result.engines.asr.deaf = True  # type: ignore[attr-defined]

    (ended,) = talk([says(WORDS)], prepare=deaf).ended
    assert ended.turn.end_reason is EndReason.NO_TRANSCRIPT and ended.turn.groups[(v.ASR, None)][v.ASR_EMPTY] == 1


def test_bytes_read_by_every_token() -> None:
    (ended,) = talk([says(WORDS)], ["One two three."], load(flags={"llm": {"thinking_tokens": 2}})).ended
    thought, spoken = steps(ended, Stage.LLM_THINKING), steps(ended, Stage.LLM_FIRST_PHRASE)
    assert [list(step.attributes[v.LLM_KV_BYTES]) for step in (*thought, *spoken)] == [[10, 20], [30, 40, 50]]  # type: ignore[arg-type]
    assert [step.attributes[v.WORK_BYTES] for step in (*thought, *spoken)] == [2030, 3120]
    assert [step.attributes[v.WORK_STEPS] for step in (*thought, *spoken)] == [2, 3]
    group = ended.turn.groups[(v.LLM, None)]
    assert (group[v.LLM_DRAFTED_TOKENS], group[v.LLM_ACCEPTED_TOKENS]) == (4, 3)


@pytest.mark.parametrize(
    ("marks", "opening", "closing"), [("iiooi", 2, 1), ("oo", 0, 0), ("iii", 3, 0), ("oii", 0, 2), ("", 0, 0)]
)
def test_injected_tags_before_and_after_a_thought_are_counted(marks: str, opening: int, closing: int) -> None:
    thought = [Token("", True, at, at + 1, injected=mark == "i") for at, mark in enumerate(marks)]
    assert tag_tokens(thought) == {v.LLM_OPENING_TAG_TOKENS: opening, v.LLM_CLOSING_TAG_TOKENS: closing}


def test_bytes_that_an_engine_does_not_know_are_not_told() -> None:
    def unknowing(result: Talk) -> None:
        result.engines.llm.weight_bytes = None  # type: ignore[attr-defined]

    (ended,) = talk([says(WORDS)], ["Fine."], prepare=unknowing).ended
    assert all(v.WORK_BYTES not in step.attributes for step in steps(ended, Stage.LLM_FIRST_PHRASE))


def test_patches_by_part() -> None:
    (ended,) = talk([says(WORDS)], ["One two three four five six."]).ended
    (first,), (rest,) = steps(ended, Stage.TTS_FIRST_PATCH), steps(ended, Stage.TTS_PATCHES)
    for step, patches in ((first, 1), (rest, len(loop_ns(rest) or []))):
        assert step.attributes[v.TTS_PATCH_PART_NS.format("diffusion")] == (30_000_000,) * patches
        assert step.attributes[v.TTS_PATCH_PART_NS.format("vae")] == (10_000_000,) * patches
        assert step.attributes[v.TTS_FORWARDS] == (9,) * patches and step.attributes[v.WORK_STEPS] == patches


@pytest.mark.parametrize("chunk_ms", [320, 560, 1120])
@pytest.mark.parametrize("needs_whole_chunks", [True, False])
@pytest.mark.parametrize("flush", [True, False])
def test_without_a_flush_the_rest_of_the_chunk_is_waited_for(
    chunk_ms: int, needs_whole_chunks: bool, flush: bool
) -> None:
    def prepare(result: Talk) -> None:
        result.engines.asr.needs_whole_chunks = needs_whole_chunks  # type: ignore[misc]

    asr = {"chunk_ms": chunk_ms, "flush": flush}
    settings = load(flags={"asr": asr, "endpoint": {"mode": "hangover", "hangover_s": 0.2}})
    (ended,) = talk([says(WORDS, pause_s=2.0)], ["Fine."], settings, prepare).ended
    waits, path = steps(ended, Stage.ASR_CHUNK_WAIT), critical_path(ended.turn)
    assert ended.transcript == WORDS and path is not None and path.totals.get(Stage.UNATTRIBUTED, 0) == 0
    if flush or not needs_whole_chunks:
        assert not waits
        return
    (wait,) = waits
    assert 0 < wait.duration_ns <= (chunk_ms + 20) * 1e6 and path.totals[Stage.ASR_CHUNK_WAIT] == wait.duration_ns
    heard_s = ended.turn.groups[(v.ASR, None)][v.ASR_SPEECH_S]
    assert isinstance(heard_s, float) and heard_s * 1000 % chunk_ms == pytest.approx(0)


def test_packets_that_end_while_a_chunk_is_waited_for_are_answered_with_what_there_is() -> None:
    clock, ended = VirtualClock(), []
    settings = load(flags={"asr": {"flush": False}, "endpoint": {"mode": "hangover", "hangover_s": 0.2}})
    engines = fake_engines(clock, ["Fine."], chunk_ms=1120)
    engines.asr.needs_whole_chunks = True  # type: ignore[misc]
    capture = SampleClock(clock.now_ns(), CAPTURE_RATE_HZ)
    track = OutputTrack(SampleClock(clock.now_ns(), engines.tts.sample_rate))
    sound = np.concatenate([speech(WORDS), silence(0.3)])

    async def packets() -> AsyncIterator[Packet]:
        for start in range(0, len(sound), 320):
            await sleep_until(clock, capture.ns_of(start + 320))
            yield Packet(start, sound[start : start + 320])

    def observe(event: Event) -> None:
        if isinstance(event, TurnEnded):
            ended.append(event)

    async def main() -> None:
        await Conversation(engines, settings, clock, capture, track, observe).run(packets())
        await engines.workers.close()

    run_virtually(clock, main())
    assert [(e.transcript, e.turn.end_reason) for e in ended] == [(WORDS, EndReason.COMPLETED)]


def test_the_reply_is_kept_in_the_models_cache_while_it_plays() -> None:
    def keeps(result: Talk) -> None:
        result.engines.llm.keep_cost_s = 0.02  # type: ignore[attr-defined]

    result = talk([says(WORDS), says("go on", "reply_end")], ["One two three.", "Fine."], prepare=keeps)
    first = result.ended[0]
    kept = [step for step in steps(first, Stage.LLM_PREFILL) if step.attributes.get(v.WHAT) == "history"]
    assert len(kept) == 1 and kept[0].start_ns >= steps(first, Stage.TTS_FIRST_PATCH)[0].end_ns
    path = critical_path(first.turn)
    assert path is not None and path.totals[Stage.LLM_PREFILL] == 80_000_000  # the prompt's own
    asked, told = result.engines.llm.asked, result.engines.llm.kept  # type: ignore[attr-defined]
    assert told[1] == [*asked[0], Message("assistant", "One two three.")] == asked[1][:-1]


@pytest.mark.parametrize("cost_s", [0.02, 3.0])
def test_a_conversation_begins_with_its_opening_in_the_models_cache_and_no_turn_pays_for_it(cost_s: float) -> None:
    def keeps(result: Talk) -> None:
        result.engines.llm.keep_cost_s = cost_s  # type: ignore[attr-defined]

    both = [scenario([says(WORDS)]) for _ in range(2)]
    result, usual = (talk_through(both, ["One two three."] * 2, prepare=prepare) for prepare in (keeps, None))
    told = result.engines.llm.kept  # type: ignore[attr-defined]
    assert told[0] == told[2] == new_history(load().llm).opening() and len(told) == 4
    assert [e.turn.latency_ns for e in result.ended] == [e.turn.latency_ns for e in usual.ended]
    begun = [e.turn.steps[0].start_ns - e.turn.speech_start_ns for e in (*result.ended, *usual.ended)]
    assert len(set(begun)) == 1
    voiced = np.flatnonzero(np.concatenate(result.user) > 0.05)
    apart_s = (result.ended[1].turn.speech_start_ns - result.ended[0].turn.speech_start_ns) / 1e9
    second = voiced[np.searchsorted(voiced, voiced[0] + 16_000 * (apart_s - 0.1))]
    assert (second - voiced[0]) / 16_000 == pytest.approx(apart_s, abs=0.04)  # the recording keeps time


def test_an_opening_that_fails_leaves_the_turn_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the language model broke")

    monkeypatch.setattr(FakeLlm, "prefill", broken)
    (ended,) = talk([says(WORDS)], ["One two three."]).ended
    assert ended.turn.end_reason is EndReason.COMPLETED


def test_keeping_it_does_not_hold_up_the_turns_end() -> None:
    def keeps(result: Talk) -> None:
        result.engines.llm.keep_cost_s = 3.0  # type: ignore[attr-defined]

    (ended,) = talk([says(WORDS)], ["One two three."], prepare=keeps).ended
    assert ended.turn.end_reason is EndReason.COMPLETED
    assert ended.turn.end_ns is not None and ended.turn.first_audio_ns is not None
    assert ended.turn.end_ns - ended.turn.first_audio_ns < 1e9


def test_a_reply_that_is_interrupted_is_not_kept() -> None:
    result = talk([says(WORDS), says("stop", "reply_start", 0.2)], ["One two three four five six seven eight.", "Ok."])
    interrupted, _ = result.ended
    assert interrupted.turn.end_reason is EndReason.INTERRUPTED
    texts = [messages[-1].content for messages in result.engines.llm.kept]  # type: ignore[attr-defined]
    assert texts[-1] == "Ok."


def test_a_message_that_cannot_be_answered_does_not_come_again() -> None:
    def forgets(result: Talk) -> None:
        result.engines.llm.fail_next = True  # type: ignore[attr-defined]

    result = talk(
        [says(WORDS), says("go on", "reply_end"), says("stop", "reply_end")], ["Fine.", "Ok."], prepare=forgets
    )
    assert [e.turn.end_reason for e in result.ended] == [EndReason.ERROR, EndReason.COMPLETED, EndReason.COMPLETED]
    asked = result.engines.llm.asked  # type: ignore[attr-defined]
    assert asked[1][-1] == Message("user", "go on") and WORDS not in str(asked[2])


def test_a_long_utterance_keeps_no_more_audio_than_a_short_one() -> None:
    clock = VirtualClock()
    turn, engines, settings = Turn("c", 1, 0), fake_engines(clock), load()
    trail = EndpointTrail(turn, SampleClock(0, CAPTURE_RATE_HZ), EndOfTurn(settings.endpoint), lambda _: 0)
    utterance = Utterance(turn, engines, settings, engines.asr.open(), trail, 0)
    packet, heard = np.arange(320, dtype=np.float32), []
    for number in range(3000):
        utterance.append(packet + number)
        if number % 16 == 15:
            heard.append(utterance.take(utterance.length))
            assert sum(map(len, utterance.audio)) <= 8 * CAPTURE_RATE_HZ + 320
    assert np.array_equal(np.concatenate(heard), np.concatenate([packet + number for number in range(2992)]))
    assert np.array_equal(utterance.tail(0.1), np.concatenate([packet + number for number in range(2995, 3000)]))
