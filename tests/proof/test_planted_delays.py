"""Points 1 and 2: 300 ms planted in one stage are found there, to the nanosecond, and nowhere else."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from agent.asr.protocol import Transcript
from agent.events import Event, UserSaid
from agent.settings import load
from agent.tts.protocol import Patch, Setup
from agent.worker import ShouldStop, once
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.fakes.talk import Talk, says, talk

MS = 1_000_000
S_NS = 2_000 * MS
CHAIN = tuple(stage for stage in Stage if stage not in (Stage.QUEUE, Stage.UNATTRIBUTED))
REPLY = "Fine, thank you very much. And how are you today?"


def totals(turn: Turn) -> dict[Stage, int]:
    path = critical_path(turn)
    assert path is not None and path.total_ns == turn.latency_ns
    return path.totals


def moved(before: dict[Stage, int], after: dict[Stage, int]) -> dict[Stage, int]:
    """By how many nanoseconds, of the stages that have moved."""
    return {s: ns for s in Stage if (ns := after.get(s, 0) - before.get(s, 0))}


def chain(planted: Stage | None = None, planted_ns: int = 300 * MS) -> Turn:
    """A step of every stage, one after another from S to A, 7 ms each; of the stages that are gaps, one gap each."""
    turn = Turn("chain", 1, 0, speech_end_ns=S_NS)
    now_ns, cause = S_NS, None
    for stage in Stage:
        lasts_ns = 7 * MS + (planted_ns if stage is planted else 0)
        if stage in CHAIN:
            cause = turn.add(stage, now_ns, now_ns + lasts_ns, [cause])
            now_ns += lasts_ns
        else:
            holder = "llm.generate" if stage is Stage.QUEUE else None
            cause = turn.add(Stage.HOST, now_ns + lasts_ns, now_ns + lasts_ns + MS, [cause], waited_for=holder)
            now_ns += lasts_ns + MS
    turn.first_audio_step, turn.first_audio_ns = cause, now_ns
    return turn


@pytest.mark.parametrize("stage", Stage)
def test_300_ms_planted_in_any_stage_of_a_timeline_are_its_own_and_no_others(stage: Stage) -> None:
    assert moved(totals(chain()), totals(chain(stage))) == {stage: 300_000_000}


def beside(planted_ns: int, slack_ns: int = 500 * MS) -> Turn:
    """The decision that the turn is over and the first patch, which is made meanwhile; playout waits for both. The
    patch is there `slack_ns` before the decision falls."""
    turn = Turn("beside", 1, 0, speech_end_ns=S_NS)
    started = turn.add(Stage.ENDPOINT_WAIT, S_NS, S_NS + 60 * MS)
    decided = turn.add(Stage.ENDPOINT_WAIT, S_NS, S_NS + 1_000 * MS)
    setup = turn.add(Stage.TTS_SETUP, S_NS + 60 * MS, S_NS + 1_000 * MS - slack_ns + planted_ns - 30 * MS, [started])
    ends_ns = turn.steps[setup].end_ns
    patch = turn.add(Stage.TTS_FIRST_PATCH, ends_ns, ends_ns + 30 * MS, [setup])
    start_ns = max(turn.steps[patch].end_ns, turn.steps[decided].end_ns)
    turn.first_audio_step = turn.add(Stage.PLAYOUT_LEADING_SILENCE, start_ns, start_ns + 20 * MS, [patch, decided])
    turn.first_audio_ns = start_ns + 20 * MS
    return turn


def test_300_ms_planted_beside_the_path_with_500_ms_of_slack_move_nothing() -> None:
    assert moved(totals(beside(0)), totals(beside(300 * MS))) == {}
    assert moved(totals(beside(0)), totals(beside(500 * MS))) == {}


def test_beyond_the_slack_the_work_beside_becomes_the_path_and_the_turn_longer_by_the_rest() -> None:
    before, after = beside(0), beside(501 * MS)
    assert (after.latency_ns or 0) - (before.latency_ns or 0) == 1 * MS
    assert Stage.TTS_SETUP in totals(after) and Stage.TTS_SETUP not in totals(before)


# The same through the product: a whole conversation with engines that take exact times, and one that takes longer.


def conversation(plant: Callable[[Talk], None] | None = None) -> Turn:
    settings = load(flags={"llm": {"thinking_tokens": 5}})
    (ended,) = talk([says("hello how are you today")], [REPLY], settings, plant).ended
    return ended.turn


def in_smart_turn(result: Talk) -> None:
    result.engines.smart_turn.cost_s += 0.3  # type: ignore[union-attr]


def in_final_transcript(result: Talk) -> None:
    result.engines.asr.finalize_cost_s += 0.3  # type: ignore[attr-defined]


def in_prefill(result: Talk) -> None:
    result.engines.llm.prefill_cost_s += 0.3  # type: ignore[attr-defined]


def in_token(number: int) -> Callable[[Talk], None]:
    """In the generation's token of that number; the first five are thinking."""

    def plant(result: Talk) -> None:
        llm, count = result.engines.llm, iter(range(10_000))
        token = llm._token  # type: ignore[attr-defined]

        def slow(text: str, unspoken: bool) -> object:
            if next(count) != number:
                return token(text, unspoken)
            llm.token_cost_s += 0.3  # type: ignore[attr-defined]
            made = token(text, unspoken)
            llm.token_cost_s -= 0.3  # type: ignore[attr-defined]
            return made

        llm._token = slow  # type: ignore[attr-defined]

    return plant


def in_setup(result: Talk) -> None:
    result.engines.tts.setup_cost_s += 0.3  # type: ignore[attr-defined]


def in_first_patch(result: Talk) -> None:
    result.engines.tts.patch_cost_s += 0.3  # type: ignore[attr-defined]


def in_leading_silence(result: Talk) -> None:
    synthesise = result.engines.tts.synthesise

    def late(text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        samples = round(0.32 * result.engines.tts.sample_rate)
        for item in synthesise(text, should_stop):
            if isinstance(item, Patch) and samples:
                item.samples[:samples], samples = 0, 0
            yield item

    result.engines.tts.synthesise = late  # type: ignore[method-assign]


def in_host(result: Talk) -> None:
    """Our own code takes 300 ms between the transcript and the language model."""
    at(result, UserSaid, lambda: result.clock.work(0.3))


def in_queue(result: Talk) -> None:
    """Somebody else has the language model when the transcript comes."""

    def block() -> None:
        result.engines.workers.llm.submit("another job", once(lambda _: result.clock.work(0.3)))

    at(result, UserSaid, block)


def at(result: Talk, kind: type[Event], act: Callable[[], None]) -> None:
    observe = result.observe

    def observing(event: Event) -> None:
        observe(event)
        if isinstance(event, kind):
            act()

    result.observe = observing  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize(
    ("plant", "stage"),
    [
        (in_smart_turn, Stage.SMART_TURN),
        (in_final_transcript, Stage.ASR_FINALIZE),
        (in_prefill, Stage.LLM_PREFILL),
        (in_token(2), Stage.LLM_THINKING),
        (in_token(6), Stage.LLM_FIRST_PHRASE),
        (in_setup, Stage.TTS_SETUP),
        (in_first_patch, Stage.TTS_FIRST_PATCH),
        (in_leading_silence, Stage.PLAYOUT_LEADING_SILENCE),
        (in_host, Stage.HOST),
        (in_queue, Stage.QUEUE),
    ],
    ids=lambda value: str(value) if isinstance(value, Stage) else "",
)
def test_300_ms_planted_in_an_engine_of_a_conversation_are_its_stages_own(
    plant: Callable[[Talk], None], stage: Stage
) -> None:
    assert moved(totals(conversation()), totals(conversation(plant))) == {stage: 300_000_000}


def test_300_ms_planted_in_the_second_phrase_while_the_first_one_plays_move_nothing() -> None:
    slow = conversation(in_token(14))
    assert moved(totals(conversation()), totals(slow)) == {}
    assert max(step.duration_ns for step in slow.steps if step.stage is Stage.LLM_DECODE) > 300 * MS
    assert slow.groups[(v.PLAYOUT, None)][v.PLAYOUT_UNDERRUNS] == 0


def test_300_ms_planted_in_a_partial_transcript_before_the_end_of_speech_move_nothing() -> None:
    def plant(result: Talk) -> None:
        asr, count = result.engines.asr, iter(range(10_000))
        open_stream = asr.open

        def opened() -> object:
            stream = open_stream()
            step = stream.step

            def slow(samples: np.ndarray, should_stop: ShouldStop) -> Transcript:
                planted_s = 0.3 if next(count) == 0 else 0.0
                asr.step_cost_s += planted_s  # type: ignore[attr-defined]
                made = step(samples, should_stop)
                asr.step_cost_s -= planted_s  # type: ignore[attr-defined]
                return made

            stream.step = slow  # type: ignore[method-assign]
            return stream

        asr.open = opened  # type: ignore[method-assign,assignment]

    slow = conversation(plant)
    assert moved(totals(conversation()), totals(slow)) == {}
    assert max(step.duration_ns for step in slow.steps if step.stage is Stage.ASR_PARTIAL) > 300 * MS
