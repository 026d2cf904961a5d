"""Whole conversations on fake engines in virtual time: exact, deterministic, in milliseconds."""

import itertools

import numpy as np
import pytest

from agent.events import (
    AgentSays,
    HistoryTrimmed,
    ListeningFailed,
    PartialTranscript,
    ReplyAudible,
    TurnOpened,
    UserSaid,
)
from agent.llm.history import new_history
from agent.settings import load
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.vocabulary import EndReason, Stage
from tests.fakes.engines import silence, speech
from tests.fakes.talk import Talk, says, scenario, talk, talk_through, utterance

STORY = "Once upon a time there was a dragon, and it lived in a cave by the sea with a very good friend."

OPENING = len(new_history(load().llm).opening())


def ms(ns: int) -> float:
    return ns / 1e6


def path_ms(result: Talk, turn: int = 0) -> dict[Stage, float]:
    path = critical_path(result.ended[turn].turn)
    assert path is not None
    return {stage: ms(ns) for stage, ns in path.totals.items() if ns}


def test_one_question_is_answered_and_every_millisecond_has_its_stage() -> None:
    result = talk([says("hello how are you")], ["Fine, thank you very much."])
    (ended,) = result.ended
    assert ended.turn.end_reason is EndReason.COMPLETED
    assert (ended.transcript, ended.reply, ended.heard) == (
        "hello how are you",
        "Fine, thank you very much.",
        ended.reply,
    )
    path = critical_path(ended.turn)
    assert path is not None and path.total_ns == ended.turn.latency_ns
    stages = path_ms(result)
    assert stages[Stage.SMART_TURN] == pytest.approx(40)
    assert stages[Stage.ASR_FINALIZE] == pytest.approx(50)
    assert stages[Stage.LLM_PREFILL] == pytest.approx(80)
    assert stages[Stage.TTS_SETUP] == pytest.approx(30)
    assert stages[Stage.TTS_FIRST_PATCH] == pytest.approx(40)
    assert stages[Stage.PLAYOUT_LEADING_SILENCE] == pytest.approx(20, abs=10)
    assert Stage.UNATTRIBUTED not in stages and Stage.QUEUE not in stages
    assert sum(stages.values()) == pytest.approx(ms(ended.turn.latency_ns or 0))


def test_a_conversation_with_overlaps_and_a_barge_in_has_no_unattributed_time() -> None:
    result = talk(
        [
            says("hello"),
            says("tell me a story", after="reply_end", delay_s=0.2),
            says("stop please", after="reply_start", delay_s=1.0),
            says("what is the time", after="reply_end", delay_s=0.0, known=False),
        ],
        ["Hello.", STORY, "Well, I stopped at once.", "It is time to go."],
    )
    reasons = [ended.turn.end_reason for ended in result.ended]
    assert reasons == [EndReason.COMPLETED, EndReason.INTERRUPTED, EndReason.COMPLETED, EndReason.COMPLETED]
    for ended in result.ended:
        path = critical_path(ended.turn)
        assert path is not None
        assert path.totals.get(Stage.UNATTRIBUTED, 0) == 0
        assert path.total_ns == ended.turn.latency_ns
        for before, after in itertools.pairwise(path.segments):
            assert before.end_ns == after.start_ns
    assert [ended.turn.speech_end_estimated for ended in result.ended] == [False, False, False, True]


def test_the_same_conversation_twice_is_the_same_to_the_nanosecond() -> None:
    def steps(result: Talk) -> list[object]:
        return [[(s.stage, s.start_ns, s.end_ns, s.causes, s.waited_for) for s in e.turn.steps] for e in result.ended]

    one, two = (talk([says("hello"), says("tell me a story", "reply_start", 0.4)], [STORY, "Yes."]) for _ in range(2))
    assert steps(one) == steps(two)


def test_barge_in_silences_the_reply_and_history_keeps_only_what_was_heard() -> None:
    result = talk(
        [says("tell me a story"), says("stop please", after="reply_start", delay_s=1.0)], [STORY, "I have stopped."]
    )
    first = result.ended[0]
    assert first.turn.end_reason is EndReason.INTERRUPTED
    stop_s = first.turn.attributes[v.TURN_BARGE_IN_STOP_S]
    assert isinstance(stop_s, float) and stop_s <= 0.1
    assert first.heard and STORY.startswith(first.heard) and len(first.heard.split()) < len(STORY.split())
    assert 3 <= len(first.heard.split()) <= 6  # about 1.3 s at a word every 250 ms
    asked = result.engines.llm.asked[1]  # type: ignore[attr-defined]
    assert [(m.role, m.content) for m in asked[OPENING:]] == [
        ("user", "tell me a story"),
        ("assistant", first.heard),
        ("user", "stop please"),
    ]


def test_the_agent_track_is_silent_within_100_ms_of_speech_having_lasted_long_enough() -> None:
    result = talk(
        [says("tell me a story"), says("stop please", after="reply_start", delay_s=1.0)], [STORY, "I have stopped."]
    )
    second = result.ended[1].turn
    origin_ns = second.speech_start_ns
    rate = result.engines.tts.sample_rate
    starts = [e.at_ns for e in result.events if isinstance(e, ReplyAudible)]
    start_of_run_ns = 1_000_000_000
    long_enough_ns = origin_ns + round(load().barge_in.min_speech_s * 1e9)
    silent_from = round((long_enough_ns + 100_000_000 - start_of_run_ns) / 1e9 * rate)
    silent_to = round((starts[1] - 50_000_000 - start_of_run_ns) / 1e9 * rate)
    assert silent_to > silent_from
    assert abs(result.agent_track[silent_from:silent_to]).max() == 0.0
    assert abs(result.agent_track[:silent_from]).max() > 0.2


def test_going_on_inside_a_sentence_is_a_cut_off_and_both_halves_are_answered_together() -> None:
    result = talk(
        [says("tell me a story", pause_s=0.0), says("and then stop", after="absolute", delay_s=0.5 + 0.8 + 0.33)],
        ["Once.", "Very well."],
    )
    first, second = result.ended
    assert first.turn.end_reason is EndReason.CUT_OFF and first.turn.latency_ns is None and first.heard == ""
    assert second.turn.end_reason is EndReason.COMPLETED
    asked = result.engines.llm.asked[-1]  # type: ignore[attr-defined]
    assert [(m.role, m.content) for m in asked[OPENING:]] == [("user", "tell me a story and then stop")]


def test_a_pause_that_smart_turn_takes_for_unfinished_does_not_end_the_turn() -> None:
    def unsure(result: Talk) -> None:
        result.engines.smart_turn.answers += [0.1, 0.02]  # type: ignore[union-attr]

    pause = utterance(
        np.concatenate([speech("tell me a"), silence(0.6), speech("story"), silence(0.2)]), "absolute", 0.5, 1.4
    )
    result = talk([pause], ["Once."], prepare=unsure)
    (ended,) = result.ended
    assert ended.transcript == "tell me a story" and ended.turn.end_reason is EndReason.COMPLETED


@pytest.mark.parametrize(
    ("endpoint", "kind", "silence_ms"),
    [
        ({"mode": "hangover", "hangover_s": 0.7}, "hangover", 700),
        ({"mode": "smart-turn"}, "smart_turn", 64),
        ({"mode": "hangover+smart-turn", "hangover_s": 0.3}, "smart_turn", 300),
    ],
)
def test_endpoint_modes(endpoint: dict[str, object], kind: str, silence_ms: float) -> None:
    result = talk([says("hello")], ["Hi."], settings=load(flags={"endpoint": endpoint}))
    turn = result.ended[0].turn
    assert turn.groups[(v.ENDPOINT, None)][v.ENDPOINT_KIND] == kind
    wait = path_ms(result)[Stage.ENDPOINT_WAIT]
    assert silence_ms <= wait <= silence_ms + 2 * 32 + 20
    assert (Stage.SMART_TURN in path_ms(result)) == (kind == "smart_turn")


def test_partials_come_at_the_chunks_cadence_and_late_ones_are_skipped_and_counted() -> None:
    words = "hello how are you today what is the time tell me a story"

    def partials(chunk_ms: int, cost_s: float) -> tuple[int, int]:
        def slow(result: Talk) -> None:
            result.engines.asr.step_cost_s = cost_s  # type: ignore[attr-defined]

        result = talk([says(words)], ["Fine."], settings=load(flags={"asr": {"chunk_ms": chunk_ms}}), prepare=slow)
        group = result.ended[0].turn.groups[(v.ASR, None)]
        shown = [e.text for e in result.events if isinstance(e, PartialTranscript)]
        assert all(words.startswith(text) for text in shown)
        assert result.ended[0].transcript == words
        done, skipped = group[v.ASR_PARTIALS], group[v.ASR_PARTIALS_SKIPPED]
        assert isinstance(done, int) and isinstance(skipped, int)
        return done, skipped

    speech_s = 0.2 * len(words.split())
    done, skipped = partials(320, 0.03)
    assert skipped == 0 and speech_s / 0.32 - 2 <= done <= speech_s / 0.32 + 1
    assert partials(1120, 0.03)[0] <= speech_s / 1.12 + 1
    done, skipped = partials(80, 0.2)
    assert skipped > done > 3


def test_thinking_is_on_the_path_and_never_spoken() -> None:
    settings = load(flags={"llm": {"thinking_tokens": 32}})
    result = talk([says("hello")], ["Hi there."], settings=settings)
    assert path_ms(result)[Stage.LLM_THINKING] == pytest.approx(320)
    assert result.ended[0].reply == "Hi there."
    assert not any("hidden" in e.text for e in result.events if isinstance(e, AgentSays))
    assert result.ended[0].turn.groups[(v.LLM, None)][v.UNSPOKEN_TOKENS] == 32


def test_a_full_context_forgets_the_oldest_turns_and_says_so() -> None:
    def small(result: Talk) -> None:
        opening = result.engines.llm.prompt_tokens(new_history(load().llm).opening())
        result.engines.llm.context_tokens = opening + 160 + 32 + 40  # type: ignore[attr-defined]

    hello = [says("hello how are you", "absolute" if i == 0 else "reply_end", 0.5) for i in range(6)]
    result = talk(hello, [STORY] * 6, prepare=small)
    assert [ended.turn.end_reason for ended in result.ended] == [EndReason.COMPLETED] * 6
    trimmed = [event for event in result.events if isinstance(event, HistoryTrimmed)]
    assert trimmed and all(event.dropped >= 1 for event in trimmed)
    room = result.engines.llm.context_tokens - 160 - 32
    asked = result.engines.llm.asked  # type: ignore[attr-defined]
    assert all(result.engines.llm.prompt_tokens(messages) <= room for messages in asked)


@pytest.mark.parametrize("stage", ["asr", "llm", "tts"])
def test_an_engine_that_fails_ends_its_turn_and_the_next_one_works(stage: str) -> None:
    def break_it(result: Talk) -> None:
        getattr(result.engines, stage).fail_next = True

    result = talk([says("hello"), says("how are you", "reply_end", 0.3)], ["Fine."] * 2, prepare=break_it)
    first, second = result.ended
    assert first.turn.end_reason is EndReason.ERROR and "broke" in str(first.error)
    assert first.turn.attributes[v.TURN_ERROR] == "RuntimeError"  # what it said may quote the user
    assert any(v.ERROR_TYPE in described for described in first.turn.groups.values())
    assert second.turn.end_reason is EndReason.COMPLETED and second.error is None
    assert critical_path(second.turn) is not None


def test_speech_without_words_is_not_answered() -> None:
    def deaf(result: Talk) -> None:
        result.engines.asr.deaf = True  # type: ignore[attr-defined]

    result = talk([says("hello")], ["Never said."], prepare=deaf)
    (ended,) = result.ended
    assert ended.turn.end_reason is EndReason.NO_TRANSCRIPT and ended.turn.latency_ns is None
    assert not any(isinstance(e, UserSaid | AgentSays) for e in result.events)
    assert result.engines.llm.asked == []  # type: ignore[attr-defined]


def test_silence_opens_no_turn() -> None:
    result = talk([utterance(silence(0.5), "absolute", 0.2, None)], ["Never said."])
    assert result.events == []


@pytest.mark.parametrize("pause_s", [0.0, 0.7, 2.5])
def test_a_recording_of_unknown_end_is_answered_and_ends_whatever_silence_follows(pause_s: float) -> None:
    result = talk([says("hello how are you", known=False, pause_s=pause_s)], ["Fine, thank you."])
    assert [ended.turn.end_reason for ended in result.ended] == [EndReason.COMPLETED]
    assert result.ended[0].turn.speech_end_estimated


def test_a_barge_in_that_nobody_hears_does_not_keep_the_scenario_waiting() -> None:
    whisper = utterance(silence(0.4), "reply_start", 0.2, 0.3)
    result = talk([says("hello"), whisper, says("how are you", "reply_end", 0.1)], ["Fine, thank you.", "Yes."])
    assert [ended.transcript for ended in result.ended] == ["hello", "how are you"]


def test_the_voice_detector_follows_the_sample_clock_from_scenario_to_scenario() -> None:
    """S of the second scenario is estimated, and must lie where its speech really ends."""
    one, two = (scenario([says("hello how are you", known=False)]) for _ in range(2))
    result = talk_through([one, two], ["Fine, thank you very much my friend.", "Yes."])
    track = np.concatenate(result.user)
    ends_s = [(ended.turn.speech_end_ns - 1_000_000_000) / 1e9 for ended in result.ended]  # type: ignore[operator]
    voiced = np.flatnonzero(track > 0.05) / 16_000
    for end_s in ends_s:
        assert np.abs(voiced - end_s).min() < 0.032
        assert track[round((end_s + 0.04) * 16_000)] == 0.0


def test_listening_that_fails_ends_its_turn_and_the_next_one_works() -> None:
    def break_it(result: Talk) -> None:
        result.engines.vad.fail_at = 20_000  # type: ignore[attr-defined]

    result = talk([says("hello how are you"), says("stop please", "reply_end", 1.0)], ["I did."], prepare=break_it)
    assert result.ended[0].turn.end_reason is EndReason.ERROR
    assert result.ended[-1].turn.end_reason is EndReason.COMPLETED
    assert any(isinstance(event, ListeningFailed) for event in result.events)


def test_an_observer_that_fails_ends_the_conversation_with_its_error_and_no_turn_is_lost() -> None:
    def break_it(result: Talk) -> None:
        def full(event: object) -> None:
            result.events.append(event)  # type: ignore[arg-type]
            if isinstance(event, UserSaid):
                raise OSError("disk full")

        result.observe = full  # type: ignore[method-assign]

    clock_talk: list[Talk] = []

    def remember(result: Talk) -> None:
        clock_talk.append(result)
        break_it(result)

    with pytest.raises(OSError, match="disk full"):
        talk([says("hello"), says("how are you", "reply_end")], ["Fine."], prepare=remember)
    opened = [event.turn.index for event in clock_talk[0].events if isinstance(event, TurnOpened)]
    assert opened == [ended.turn.index for ended in clock_talk[0].ended]


@pytest.mark.parametrize("after_s", [round(0.04 * step, 2) for step in range(60)])
def test_the_user_may_speak_again_at_any_moment(after_s: float) -> None:
    """From the end of the first utterance on, every 40 ms: every turn is closed once, and the history is what was
    heard."""
    again = says("stop please", "absolute", 0.5 + 0.8 + after_s)
    result = talk([says("tell me a story", pause_s=0.0), again], [STORY, "I have stopped.", "Yes."])
    opened = [event.turn.index for event in result.events if isinstance(event, TurnOpened)]
    assert opened == sorted(ended.turn.index for ended in result.ended)
    for ended in result.ended:
        path = critical_path(ended.turn)
        assert (path is None) == (ended.turn.latency_ns is None)
        assert path is None or (path.total_ns == ended.turn.latency_ns and Stage.UNATTRIBUTED not in path.totals)
    told = [m for m in result.engines.llm.asked[-1][OPENING:] if m.role == "assistant"]  # type: ignore[attr-defined]
    assert [m.content for m in told] == [ended.heard for ended in result.ended[:-1] if ended.heard]
    assert result.ended[-1].turn.end_reason is EndReason.COMPLETED


def test_a_slow_voice_underruns_and_says_so_and_a_start_buffer_is_learnt() -> None:
    def slow(result: Talk) -> None:
        result.engines.tts.patch_cost_s = 0.6  # type: ignore[attr-defined]

    result = talk([says("hello"), says("how are you", "reply_end")], [STORY, STORY], prepare=slow)
    groups = [ended.turn.groups[(v.PLAYOUT, None)] for ended in result.ended]
    underruns = [group[v.PLAYOUT_UNDERRUNS] for group in groups]
    assert isinstance(underruns[0], int) and underruns[0] > 3
    assert groups[0][v.PLAYOUT_BUFFER_S] == pytest.approx(0.1)
    assert groups[1][v.PLAYOUT_BUFFER_S] == pytest.approx(0.75)
    assert path_ms(result, 1)[Stage.PLAYOUT_BUFFER] > 500
