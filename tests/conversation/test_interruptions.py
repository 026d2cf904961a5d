"""Interruptions of whole conversations in virtual time: what pauses a reply, what ends it, and what is left of it."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agent.audio.output_track import OutputTrack
from agent.audio.pace import sleep_until
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock
from agent.conversation import Conversation
from agent.events import AgentSays, Event, ReplyAudible, TurnEnded, UserSaid
from agent.llm.history import new_history
from agent.scenario import Utterance
from agent.settings import Settings, load
from profiling.critical_path import critical_path
from profiling.run import load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from tests.fakes.engines import FakeTts, fake_engines, noise, silence, speech
from tests.fakes.talk import Talk, says, talk, utterance
from tests.fakes.virtual_time import VirtualClock, run_virtually
from tests.proof.recorded import recorded_talk

STORY = "Once upon a time there was a dragon, and it lived in a cave by the sea with a very good friend."
QUESTION = says("tell me a story")
OPENING = len(new_history(load().llm).opening())
RATE = FakeTts.sample_rate
START_NS = 1_000_000_000  # of the recording
MIN_SPEECH_S = load().barge_in.min_speech_s


def reasons(result: Talk) -> list[EndReason | None]:
    return [ended.turn.end_reason for ended in by_index(result)]


def by_index(result: Talk) -> list[TurnEnded]:
    return sorted(result.ended, key=lambda ended: ended.turn.index)


def told(result: Talk) -> list[tuple[str, str]]:
    """What the model was told last, without the opening."""
    return [(m.role, m.content) for m in result.engines.llm.asked[-1][OPENING:]]  # type: ignore[attr-defined]


def rustles(seconds: float, after: str = "reply_start", delay_s: float = 1.0) -> Utterance:
    """A sound without words."""
    return utterance(np.concatenate([noise(seconds), silence(0.3)]), after, delay_s, seconds)


def holds(turn: Turn) -> list[float]:
    """Seconds of every pause."""
    return [step.duration_ns / 1e9 for step in turn.steps if step.stage is Stage.PLAYOUT_HOLD]


def check(result: Talk) -> None:
    """Every path sums exactly and every span lies in its turn, whatever happened."""
    assert len({ended.turn.index for ended in result.ended}) == len(result.ended)
    for ended in result.ended:
        turn, path = ended.turn, critical_path(ended.turn)
        assert (path is None) == (turn.latency_ns is None)
        if path is not None:
            assert path.total_ns == turn.latency_ns and path.totals.get(Stage.UNATTRIBUTED, 0) == 0
            assert all(one.end_ns == two.start_ns for one, two in itertools.pairwise(path.segments))
        assert all(step.end_ns <= (turn.end_ns or 0) for step in turn.steps)


def test_a_back_channel_that_is_recognised_in_time_leaves_no_gap() -> None:
    quick = load(flags={"asr": {"chunk_ms": 80}})
    nods = says("yeah yeah yeah", "reply_start", 1.0)
    result, alone = talk([QUESTION, nods], [STORY], quick), talk([QUESTION], [STORY], quick)
    assert reasons(result) == [EndReason.COMPLETED, EndReason.BACKCHANNEL]
    assert np.array_equal(np.trim_zeros(result.agent_track), np.trim_zeros(alone.agent_track))
    story, nod = by_index(result)
    assert story.heard == STORY and holds(story.turn) == [] and nod.transcript == "yeah yeah yeah"
    assert story.turn.groups[(v.PLAYOUT, None)][v.PLAYOUT_PAUSES] == 0
    check(result)


def test_a_short_back_channel_leaves_no_gap_however_late_it_is_recognised() -> None:
    slow = load(flags={"asr": {"chunk_ms": 1120}})
    result, alone = (talk([QUESTION, *nod], [STORY], slow) for nod in ([says("yeah", "reply_start", 1.0)], []))
    assert reasons(result) == [EndReason.COMPLETED, EndReason.BACKCHANNEL]
    assert np.array_equal(np.trim_zeros(result.agent_track), np.trim_zeros(alone.agent_track))


@pytest.mark.parametrize("sounds", ["yeah okay yeah", None])
def test_a_false_interruption_resumes_exactly_where_it_stopped(sounds: str | None) -> None:
    slow = load(flags={"asr": {"chunk_ms": 1120}})
    sound = says(sounds, "reply_start", 1.0) if sounds else rustles(0.6)
    result, alone = talk([QUESTION, sound], [STORY], slow), talk([QUESTION], [STORY], slow)
    story, other = by_index(result)
    expected = EndReason.BACKCHANNEL if sounds else EndReason.NO_TRANSCRIPT
    assert (story.turn.end_reason, other.turn.end_reason) == (EndReason.COMPLETED, expected)
    (hold,) = [step for step in story.turn.steps if step.stage is Stage.PLAYOUT_HOLD]
    first, last = ((ns - START_NS) * RATE // 10**9 for ns in (hold.start_ns, hold.end_ns))
    heard, fade = result.agent_track, round(0.005 * RATE)
    assert not heard[first:last].any() and heard[first - 2] and heard[last + 1]
    heard = np.delete(heard, np.arange(first, last))
    said = alone.agent_track[: len(heard)]
    away = np.r_[0 : first - fade, first + fade : min(len(heard), len(said))]
    assert np.array_equal(heard[away], said[away]) and not heard[len(said) :].any()
    assert (abs(heard[: len(said)]) <= abs(said) + 1e-6).all()
    assert story.heard == STORY and len(holds(story.turn)) == 1
    group = story.turn.groups[(v.PLAYOUT, None)]
    assert group[v.PLAYOUT_PAUSES] == 1 and group[v.PLAYOUT_UNDERRUNS] == 0
    assert group[v.PLAYOUT_PAUSED_S] == pytest.approx(holds(story.turn)[0], abs=1e-6)
    assert hold.attributes[v.WHAT] == ("a back-channel" if sounds else "no words")
    check(result)


def test_what_was_no_interruption_leaves_no_trace_in_the_history() -> None:
    result = talk(
        [QUESTION, says("yeah", "reply_start", 0.8), rustles(0.6, "absolute", 5.0), says("go on", "reply_end", 0.5)],
        [STORY, "I have ended."],
    )
    assert reasons(result) == [
        *(EndReason.COMPLETED, EndReason.BACKCHANNEL, EndReason.NO_TRANSCRIPT, EndReason.COMPLETED),
    ]
    assert told(result) == [("user", "tell me a story"), ("assistant", STORY), ("user", "go on")]
    assert [event.text for event in result.events if isinstance(event, UserSaid)] == ["tell me a story", "go on"]
    assert "".join(event.text for event in result.events if isinstance(event, AgentSays)) == STORY + "I have ended."


@pytest.mark.parametrize("finalize_s", [0.05, 5.0])
def test_a_reply_goes_on_two_seconds_after_the_user_fell_silent_however_slow_the_recogniser(finalize_s: float) -> None:
    def slow(result: Talk) -> None:
        result.engines.asr.finalize_cost_s = finalize_s  # type: ignore[attr-defined]

    def unfinished(result: Talk) -> None:
        slow(result)
        result.engines.smart_turn.answers.extend([0.9, 0.0, 0.0, 0.0])  # type: ignore[union-attr]

    long_wait = load(flags={"endpoint": {"max_hangover_s": 6.0}})
    for prepare, settings in ((slow, load()), (unfinished, long_wait)):
        result = talk([QUESTION, rustles(0.6)], [STORY], settings, prepare)
        story = by_index(result)[0].turn
        (hold,) = [step for step in story.steps if step.stage is Stage.PLAYOUT_HOLD]
        silent_ns = by_index(result)[1].turn.speech_end_ns
        assert silent_ns is not None and hold.end_ns - silent_ns <= 2.1e9
        assert story.end_reason is EndReason.COMPLETED


def test_real_words_end_the_reply_within_the_bound_and_the_history_holds_what_was_heard() -> None:
    result = talk([QUESTION, says("what is the time", "reply_start", 1.0)], [STORY, "Ten."])
    first, second = by_index(result)
    assert reasons(result) == [EndReason.INTERRUPTED, EndReason.COMPLETED]
    stop_s = first.turn.attributes[v.TURN_BARGE_IN_STOP_S]
    assert isinstance(stop_s, float) and 0 < stop_s <= 0.05
    silent_ns = max(step.end_ns for step in first.turn.steps if step.stage is Stage.PLAYOUT_PLAY)
    assert silent_ns - second.turn.speech_start_ns <= (MIN_SPEECH_S + 0.1) * 1e9
    played_s = (silent_ns - (first.turn.first_audio_ns or 0)) / 1e9 + 0.02
    assert len(first.heard.split()) == int(played_s / FakeTts.word_s)
    assert told(result) == [
        *(("user", "tell me a story"), ("assistant", first.heard), ("user", "what is the time")),
    ]
    assert len(result.engines.tts.said) < 5  # type: ignore[attr-defined]
    check(result)


def test_a_short_command_interrupts_when_it_is_understood() -> None:
    result = talk([QUESTION, says("stop", "reply_start", 1.0)], [STORY, "Yes."])
    assert reasons(result) == [EndReason.INTERRUPTED, EndReason.COMPLETED]
    first, second = by_index(result)
    assert holds(first.turn) == []  # too short for a pause
    final = next(step for step in second.turn.steps if step.stage is Stage.ASR_FINALIZE)
    assert 0 <= first.turn.end_ns - final.end_ns <= 6e6  # type: ignore[operator]
    assert told(result)[-2:] == [("assistant", first.heard), ("user", "stop")]
    check(result)


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.35, 0.45])
@pytest.mark.parametrize("cough_s", [0.15, 0.6])
def test_a_cough_while_the_agent_thinks_does_not_lose_the_answer(after_s: float, cough_s: float) -> None:
    """The answer would be audible about 0.5 s after the question."""
    end_s = 0.5 + len(speech("tell me a story")) / 16_000
    question = says("tell me a story", pause_s=0.0)
    result = talk([question, rustles(cough_s, "absolute", end_s + 0.35 + after_s)], [STORY])
    assert reasons(result) == [EndReason.COMPLETED, EndReason.NO_TRANSCRIPT]
    story, cough = by_index(result)
    assert story.heard == STORY and story.turn.first_audio_ns is not None
    audible = [event.at_ns for event in result.events if isinstance(event, ReplyAudible)]
    assert audible[-1] == story.turn.first_audio_ns
    path = critical_path(story.turn)
    assert path is not None
    held_ns = path.totals.get(Stage.PLAYOUT_HOLD, 0)
    assert (held_ns > 1e8) == (story.turn.first_audio_ns >= (cough.turn.speech_end_ns or 0))
    assert held_ns or after_s or cough_s < 0.6
    check(result)


def test_words_before_the_first_sound_are_answered_together_with_those_before() -> None:
    more = says("and then go on", "absolute", 0.5 + 0.8 + 0.4)
    result = talk([says("tell me a story", pause_s=0.0), more], [STORY, "Very well."])
    assert reasons(result) == [EndReason.CUT_OFF, EndReason.COMPLETED]
    first = by_index(result)[0]
    assert first.heard == "" and v.TURN_BARGE_IN_STOP_S not in first.turn.attributes
    assert told(result) == [("user", "tell me a story and then go on")]
    check(result)


def test_two_barge_ins_in_a_row() -> None:
    again = [says("what is the time", "reply_start", 1.0), says("tell me the story", "reply_start", 1.0)]
    result = talk([QUESTION, *again], [STORY, STORY, "Well then."])
    assert reasons(result) == [EndReason.INTERRUPTED, EndReason.INTERRUPTED, EndReason.COMPLETED]
    first, second, _ = by_index(result)
    assert told(result) == [
        *(("user", "tell me a story"), ("assistant", first.heard)),
        *(("user", "what is the time"), ("assistant", second.heard), ("user", "tell me the story")),
    ]
    assert first.heard and second.heard and STORY.startswith(first.heard) and STORY.startswith(second.heard)
    check(result)


def test_words_during_a_pause_interrupt_for_good() -> None:
    """A rustle pauses the reply; while its transcript is being made, the user speaks."""

    def slow(result: Talk) -> None:
        result.engines.asr.finalize_cost_s = 0.6  # type: ignore[attr-defined]

    start_s = 0.5 + 0.8 + 2.5
    result = talk(
        [QUESTION, rustles(0.6, "absolute", start_s), says("what is the time", "absolute", start_s + 1.0)],
        [STORY, "Ten."],
        prepare=slow,
    )
    assert reasons(result) == [EndReason.INTERRUPTED, EndReason.NO_TRANSCRIPT, EndReason.COMPLETED]
    first, _, third = by_index(result)
    assert len(holds(first.turn)) >= 1
    assert told(result)[1:] == [("assistant", first.heard), ("user", "what is the time")]
    assert third.turn.latency_ns is not None
    check(result)


@pytest.mark.parametrize("before_end_s", [0.7, 0.5, 0.402, 0.4, 0.398, 0.3, 0.1, 0.02])
def test_a_barge_in_at_the_very_last_patch(before_end_s: float) -> None:
    """However close to its end, the words are answered, and the reply was heard or was cut, one of the two."""
    alone = by_index(talk([QUESTION], [STORY]))[0].turn
    assert alone.end_ns is not None and alone.first_audio_ns is not None
    delay_s = (alone.end_ns - alone.first_audio_ns) / 1e9 - before_end_s
    result = talk([QUESTION, says("what is the time", "reply_start", delay_s)], [STORY, "Ten."])
    first, second = by_index(result)
    cut = first.turn.end_reason is EndReason.INTERRUPTED
    assert cut or first.turn.end_reason is EndReason.COMPLETED
    assert cut == (first.heard != STORY) and second.heard == "Ten."
    assert told(result) == [*(("user", "tell me a story"), ("assistant", first.heard), ("user", "what is the time"))]
    check(result)


def test_a_yes_to_the_question_at_the_end_of_a_reply_is_answered() -> None:
    """Back-channel words that outlast the reply are words like others."""
    alone = by_index(talk([QUESTION], ["Shall I go on?"]))[0].turn
    assert alone.end_ns is not None and alone.first_audio_ns is not None
    delay_s = (alone.end_ns - alone.first_audio_ns) / 1e9 - 0.1
    result = talk([QUESTION, says("yeah", "reply_start", delay_s)], ["Shall I go on?", STORY])
    assert reasons(result) == [EndReason.COMPLETED, EndReason.COMPLETED]
    assert told(result)[-1] == ("user", "yeah")


def test_the_turn_after_an_interruption_waits_no_longer_than_any_other() -> None:
    """Both are asked the same; the interrupting one is understood while the language model and the voice are busy."""
    words = "what is the time"
    interrupting = talk([QUESTION, says(words, "reply_start", 1.0)], [STORY, "Ten."])
    usual = talk([QUESTION, says(words, "reply_end", 1.0)], [STORY, "Ten."])
    later = talk([says(words)], ["Ten."])
    latencies = [by_index(result)[-1].turn.latency_ns or 0 for result in (interrupting, usual, later)]
    assert max(latencies) - min(latencies) <= 32e6 + 20e6  # a frame of the VAD and a packet
    path = critical_path(by_index(interrupting)[-1].turn)
    assert path is not None and path.totals.get(Stage.QUEUE, 0) == 0


def test_without_barge_in_a_reply_plays_to_its_end_and_what_was_said_is_answered_then() -> None:
    off = load(flags={"barge_in": {"enabled": False}})
    result = talk([QUESTION, says("what is the time", "reply_start", 1.0)], [STORY, "Ten."], off)
    assert reasons(result) == [EndReason.COMPLETED, EndReason.COMPLETED]
    first, second = by_index(result)
    assert first.heard == STORY and holds(first.turn) == [] and second.heard == "Ten."
    assert told(result)[-2:] == [("assistant", STORY), ("user", "what is the time")]
    check(result)


def test_speech_that_is_still_going_on_when_the_packets_end_does_not_keep_the_reply_paused() -> None:
    clock, ended = VirtualClock(), []
    engines = fake_engines(clock, [STORY], chunk_ms=1120)
    capture = SampleClock(clock.now_ns(), CAPTURE_RATE_HZ)
    track = OutputTrack(SampleClock(clock.now_ns(), engines.tts.sample_rate))
    sound = np.concatenate([speech("tell me a story"), silence(1.5), noise(1.0)])

    async def packets() -> AsyncIterator[Packet]:
        for start in range(0, len(sound), 320):
            await sleep_until(clock, capture.ns_of(start + 320))
            yield Packet(start, sound[start : start + 320])

    def observe(event: Event) -> None:
        if isinstance(event, TurnEnded):
            ended.append(event)

    async def main() -> None:
        settings = load(flags={"asr": {"chunk_ms": 1120}})
        await Conversation(engines, settings, clock, capture, track, observe).run(packets())
        await engines.workers.close()

    run_virtually(clock, main())
    assert [e.turn.end_reason for e in ended] == [EndReason.COMPLETED, EndReason.STOPPED]
    assert ended[0].heard == STORY and len(holds(ended[0].turn)) == 1


@pytest.mark.parametrize("start_s", [round(1.3 + 0.13 * step, 2) for step in range(30)])
@pytest.mark.parametrize("kind", ["noise", "yeah", "yeah yeah yeah", "what is the time"])
def test_any_sound_at_any_moment(start_s: float, kind: str) -> None:
    """The question is answered in full or what was heard of it is known; nothing is lost and nothing counted twice."""
    sound = rustles(0.7, "absolute", start_s) if kind == "noise" else says(kind, "absolute", start_s)
    question = says("tell me a story", pause_s=0.0)
    result = talk([question, sound], [STORY, "Ten."])
    check(result)
    first = by_index(result)[0]
    if kind == "what is the time" or first.turn.index == by_index(result)[-1].turn.index:
        assert told(result)[-1][0] == "user"
        heard = [content for role, content in told(result) if role == "assistant"]
        assert heard == ([first.heard] if first.heard and len(result.ended) > 1 else [])
    else:
        assert first.heard == STORY and first.turn.end_reason is EndReason.COMPLETED


def test_a_run_with_pauses_is_read_back_as_it_was(tmp_path: Path) -> None:
    settings: Settings = load(flags={"asr": {"chunk_ms": 1120}})
    said = [QUESTION, rustles(0.6), says("go on please", "reply_end", 0.5)]
    result, folder = recorded_talk(tmp_path, said, [STORY, "Yes."], settings)
    run = load_run(folder)
    assert not run.warnings and Anchor.read(result.clock)
    for ended in result.ended:
        (turn,) = [turn for turn in run.turns if turn.index == ended.turn.index]
        assert turn.end_reason is ended.turn.end_reason and holds(turn) == holds(ended.turn)
        assert turn.groups.get((v.PLAYOUT, None)) == ended.turn.groups.get((v.PLAYOUT, None))
