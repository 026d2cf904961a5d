"""Every engine fails in every way while it works for a turn: the turn ends within its bound, the user hears the
apology, and the next turn is answered."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.resources import Resource

from agent.apology import Apology
from agent.events import ListeningFailed, TurnEnded, TurnOpened
from agent.watch import STOP_S
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor, seconds
from profiling.trace.spans import turn_spans
from profiling.trace.vocabulary import EndReason
from profiling.turn import counts
from tests.fakes.engines import FakeAsrStream, FakeTts
from tests.fakes.talk import Talk, says, talk
from tests.fakes.virtual_time import VirtualClock

LIMIT_S = 20.0  # of a virtual worker
STORY = "Once upon a time there was a dragon, and it lived in a cave by the sea with a very good friend."
APOLOGY = np.random.default_rng(5).uniform(-0.5, 0.5, 30_000).astype(np.float32)  # 1.5 s, like nothing else
FADE_NS = 5_000_000  # of a reply that is interrupted
RATE_HZ = FakeTts.sample_rate
Way = Callable[[VirtualClock], None]


def raises(clock: VirtualClock) -> None:
    clock.work(0.1)
    raise RuntimeError("it broke")


def hangs(clock: VirtualClock) -> None:
    clock.hang()


def failing_once(method: Callable[..., Any], way: Way, clock: VirtualClock) -> Callable[..., Any]:
    """Its first call fails in that way; the others are well."""
    calls = iter([way])

    def call(*args: Any, **named: Any) -> Any:
        for fail in calls:
            fail(clock)
        return method(*args, **named)

    return call


def failing_after(items: int, method: Callable[..., Any], way: Way, clock: VirtualClock) -> Callable[..., Any]:
    """The first call of a generator fails once it has given so many items."""
    calls = iter([way])

    def call(*args: Any, **named: Any) -> Iterator[Any]:
        fail = next(calls, None)
        for number, item in enumerate(method(*args, **named)):
            if fail and number == items:
                fail(clock)
            yield item

    return call


def break_asr(step: str) -> Callable[[Talk, Way, pytest.MonkeyPatch], None]:
    def prepare(result: Talk, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
        well = getattr(FakeAsrStream, step)
        calls = iter([way])

        def call(stream: FakeAsrStream, *args: Any) -> Any:
            for fail in calls:
                fail(result.clock)
            return well(stream, *args)

        monkeypatch.setattr(FakeAsrStream, step, call)

    return prepare


def break_after(engine: str, method: str, items: int) -> Callable[[Talk, Way, pytest.MonkeyPatch], None]:
    def prepare(result: Talk, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = getattr(result.engines, engine)
        setattr(broken, method, failing_after(items, getattr(broken, method), way, result.clock))

    return prepare


BREAK = {
    "asr partial": break_asr("step"),
    "asr finalize": break_asr("finalize"),
    "llm prefill": break_after("llm", "generate", 0),
    "llm token": break_after("llm", "generate", 3),
    "llm late token": break_after("llm", "generate", 16),
    "tts setup": break_after("tts", "synthesise", 0),
    "tts first patch": break_after("tts", "synthesise", 1),
    "tts patch": break_after("tts", "synthesise", 2),
}
NEXT = [says("tell me a story"), says("how are you", "reply_end", 4.0)]


def with_apology(result: Talk) -> None:
    result.engines = replace(result.engines, apology=Apology(APOLOGY, RATE_HZ))


def apologies(result: Talk) -> list[int]:
    """Where in the agent's track the whole apology was played."""
    track = result.agent_track
    (starts,) = np.nonzero(track[: len(track) - len(APOLOGY) + 1] == APOLOGY[0])
    return [int(start) for start in starts if np.array_equal(track[start : start + len(APOLOGY)], APOLOGY)]


def check_ended(result: Talk) -> None:
    """Every turn that was opened has ended once, in a whole tree of spans."""
    opened = [event.turn.index for event in result.events if isinstance(event, TurnOpened)]
    assert opened == [ended.turn.index for ended in result.ended]
    for ended in result.ended:
        spans = turn_spans(ended.turn, Anchor.read(result.clock), Resource({}))
        assert sum(v.STEP_INDEX in (span.attributes or {}) for span in spans) == len(ended.turn.steps)
        end_ns = (ended.turn.end_ns or 0) + FADE_NS
        assert all(step.start_ns <= step.end_ns <= end_ns for step in ended.turn.steps)
        assert spans[0].status.is_ok == (ended.turn.end_reason is not EndReason.ERROR)


def check_apology(result: Talk, ended: TurnEnded) -> None:
    assert ended.turn.end_reason is EndReason.ERROR and not counts(ended.turn)
    assert ended.turn.attributes[v.TURN_APOLOGY_S] == pytest.approx(1.5)
    (start,) = apologies(result)
    end_ns = 1_000_000_000 + round((start + len(APOLOGY)) / RATE_HZ * 1e9)
    assert ended.turn.end_ns == pytest.approx(end_ns, abs=2_000_000)


@pytest.mark.parametrize("way", [raises, hangs])
@pytest.mark.parametrize("place", BREAK)
def test_an_engine_that_fails_costs_its_turn_and_the_user_hears_the_apology(
    place: str, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        BREAK[place](result, way, monkeypatch)

    result = talk(NEXT, [STORY, STORY], prepare=prepare)
    first, second = result.ended
    check_ended(result)
    check_apology(result, first)
    bound_s = (LIMIT_S if way is hangs else 0.0) + len(STORY.split()) * 0.25 + 1.5 + 1.0
    assert seconds((first.turn.end_ns or 0) - (first.turn.speech_end_ns or 0)) < bound_s
    if way is hangs:
        assert "gave nothing for 20 s" in str(first.turn.attributes[v.TURN_ERROR])
    apology_ns = (first.turn.end_ns or 0) - 1_500_000_000
    assert (first.turn.first_audio_ns or 0) < apology_ns - 1_000_000  # it is no first audio of a reply
    assert second.turn.end_reason is EndReason.COMPLETED and second.heard == STORY
    path = critical_path(second.turn)
    assert path is not None and path.total_ns == second.turn.latency_ns and seconds(path.total_ns) < 1.0
    assert not any("sorry" in m.content.lower() for m in result.engines.llm.asked[-1][-2:])  # type: ignore[attr-defined]


def test_listening_that_fails_is_apologised_for_too() -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        result.engines.vad.fail_at = 15_000  # type: ignore[attr-defined]

    result = talk([says("hello how are you"), says("stop please", "reply_end", 2.0)], ["I did."] * 2, prepare=prepare)
    failed = [ended for ended in result.ended if ended.turn.end_reason is EndReason.ERROR]
    assert len(failed) == 1 and v.TURN_APOLOGY_S in failed[0].turn.attributes
    assert result.ended[-1].turn.end_reason is EndReason.COMPLETED and result.ended[-1].heard == "I did."
    check_ended(result)


@pytest.mark.parametrize("way", [raises, hangs])
def test_smart_turn_that_fails_leaves_the_decision_to_the_longest_silence(way: Way) -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        smart_turn: Any = result.engines.smart_turn
        smart_turn.probability = failing_once(smart_turn.probability, way, result.clock)
        result.engines.workers.smart_turn.bound = replace(result.engines.workers.smart_turn.bound, limit_s=3.0)

    result = talk(NEXT, ["Once.", "Fine."], prepare=prepare)
    assert [ended.turn.end_reason for ended in result.ended] == [EndReason.COMPLETED] * 2
    assert [ended.transcript for ended in result.ended] == ["tell me a story", "how are you"]
    kinds = [ended.turn.groups[v.ENDPOINT, None][v.ENDPOINT_KIND] for ended in result.ended]
    assert kinds == ["max_hangover", "smart_turn"]
    (failed,) = [event for event in result.events if isinstance(event, ListeningFailed)]
    assert ("gave nothing for 3 s" in str(failed.error)) == (way is hangs)
    assert apologies(result) == []
    check_ended(result)


def test_a_voice_that_always_fails_is_apologised_for_once_a_turn() -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        tts: Any = result.engines.tts
        tts.synthesise = lambda text, should_stop: iter([raises(result.clock)])

    hello = [says("hello", "reply_end" if i else "absolute", 1.0) for i in range(3)]
    result = talk(hello, [STORY] * 3, prepare=prepare)
    assert [ended.turn.end_reason for ended in result.ended] == [EndReason.ERROR] * 3
    assert len(apologies(result)) == 3
    check_ended(result)


def test_the_user_may_speak_into_the_apology() -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        result.engines.llm.fail_next = True  # type: ignore[attr-defined]

    result = talk(
        [says("hello", pause_s=0.0), says("tell me a story", "absolute", 0.5 + 0.2 + 1.0)], ["Once."], prepare=prepare
    )
    first, second = result.ended
    heard_s = first.turn.attributes[v.TURN_APOLOGY_S]
    assert isinstance(heard_s, float) and 0.2 < heard_s < 1.3
    assert apologies(result) == [] and second.heard == "Once."
    check_ended(result)


def test_a_reply_that_cannot_be_stopped_does_not_hold_up_the_turn_after_a_barge_in() -> None:
    def prepare(result: Talk) -> None:
        with_apology(result)
        tts: Any = result.engines.tts
        tts.synthesise = failing_after(2, tts.synthesise, hangs, result.clock)

    result = talk(
        [says("tell me a story"), says("stop please", after="reply_start", delay_s=0.5)],
        [STORY, "Yes."],
        prepare=prepare,
    )
    first, second = result.ended
    assert first.turn.end_reason is EndReason.INTERRUPTED and v.TURN_APOLOGY_S not in first.turn.attributes
    assert second.turn.end_reason is EndReason.COMPLETED and second.heard == "Yes."
    assert second.turn.latency_ns is not None and seconds(second.turn.latency_ns) < STOP_S + 1.0
    check_ended(result)


def test_nothing_is_said_where_there_is_no_apology() -> None:
    def prepare(result: Talk) -> None:
        result.engines.tts.fail_next = True  # type: ignore[attr-defined]

    result = talk(NEXT, [STORY, "Fine."], prepare=prepare)
    assert [ended.turn.end_reason for ended in result.ended] == [EndReason.ERROR, EndReason.COMPLETED]
    assert v.TURN_APOLOGY_S not in result.ended[0].turn.attributes
