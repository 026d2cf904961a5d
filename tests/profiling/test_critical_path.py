"""The critical path: contiguous, exact, and charged to the right stage."""

import itertools
import random

from profiling.critical_path import CriticalPath, critical_path, hidden
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Kind, Stage
from tests.profiling.turns import MS, answered, interrupted, random_turn


def path_of(turn: Turn) -> CriticalPath:
    path = critical_path(turn)
    assert path is not None
    return path


def totals_ms(turn: Turn) -> dict[Stage, float]:
    return {stage: ns / MS for stage, ns in path_of(turn).totals.items()}


def turn_from(speech_end: int, *steps: tuple[Stage, int, int, tuple[int, ...]], waited_for: str | None = None) -> Turn:
    """Steps in nanoseconds; the last one ends at A and is the one that waited."""
    turn = Turn("c", 1, 0, speech_end_ns=speech_end)
    for number, (stage, start, end, causes) in enumerate(steps):
        turn.add(stage, start, end, causes, waited_for=waited_for if number == len(steps) - 1 else None)
    turn.first_audio_step, turn.first_audio_ns = len(steps) - 1, steps[-1][2]
    return turn


def test_a_plain_turn_goes_through_every_stage_and_names_them_in_pipeline_order() -> None:
    assert totals_ms(answered()) == {
        Stage.ENDPOINT_WAIT: 200,
        Stage.ASR_FINALIZE: 60,
        Stage.LLM_PREFILL: 80,
        Stage.LLM_FIRST_PHRASE: 63,
        Stage.TTS_SETUP: 40,
        Stage.TTS_FIRST_PATCH: 30,
        Stage.PLAYOUT_BUFFER: 10,
        Stage.PLAYOUT_LEADING_SILENCE: 20,
        Stage.HOST: 1,
    }
    assert list(path_of(answered()).totals) == sorted(path_of(answered()).totals, key=lambda stage: stage.order)
    assert path_of(answered()).ours_ns == 1 * MS


def test_work_beside_the_path_moves_nothing_while_it_has_slack() -> None:
    assert totals_ms(answered({"beside": 19})) == totals_ms(answered())
    assert path_of(answered({"beside": 19})).segments == path_of(answered()).segments
    assert totals_ms(answered({"beside": 21}))[Stage.SMART_TURN] == 61


def test_a_turn_without_latency_has_no_path() -> None:
    assert critical_path(interrupted()) is None
    assert critical_path(Turn("c", 1, 0)) is None
    early = turn_from(100, (Stage.PLAYOUT_BUFFER, 10, 90, ()))
    assert early.latency_ns == -10 and critical_path(early) is None


def test_a_gap_is_queue_when_the_holder_is_known_and_names_it() -> None:
    steps = ((Stage.ENDPOINT_WAIT, 100, 200, ()), (Stage.LLM_PREFILL, 250, 300, (0,)))
    (_, gap, _) = path_of(turn_from(100, *steps, waited_for="tts.synthesise")).segments
    assert (gap.stage, gap.kind, gap.start_ns, gap.end_ns, gap.step) == (Stage.QUEUE, None, 200, 250, None)
    assert gap.waited_for == "tts.synthesise"
    (_, gap, _) = path_of(turn_from(100, *steps)).segments
    assert (gap.stage, gap.waited_for) == (Stage.UNATTRIBUTED, None)


def test_a_chain_that_ends_before_s_is_reached_leaves_the_rest_unattributed_or_queued() -> None:
    step = (Stage.LLM_PREFILL, 250, 300, ())
    assert path_of(turn_from(100, step)).totals == {Stage.LLM_PREFILL: 50, Stage.UNATTRIBUTED: 150}
    assert path_of(turn_from(100, step, waited_for="asr")).totals == {Stage.LLM_PREFILL: 50, Stage.QUEUE: 150}


def test_a_latency_without_its_step_is_unattributed_and_time_after_the_step_too() -> None:
    turn = turn_from(100, (Stage.LLM_PREFILL, 100, 300, ()))
    turn.first_audio_ns = 340
    assert path_of(turn).totals == {Stage.LLM_PREFILL: 200, Stage.UNATTRIBUTED: 40}
    turn.first_audio_step = None
    assert path_of(turn).totals == {Stage.UNATTRIBUTED: 240}


def test_speculation_takes_the_cause_that_came_later() -> None:
    def speculative(decision: int, patch: int) -> dict[Stage, int]:
        turn = turn_from(
            100,
            (Stage.ENDPOINT_WAIT, 100, 140, ()),
            (Stage.LLM_PREFILL, 140, patch - 20, (0,)),
            (Stage.TTS_FIRST_PATCH, patch - 20, patch, (1,)),
            (Stage.ENDPOINT_WAIT, 100, decision, ()),
            (Stage.PLAYOUT_BUFFER, max(decision, patch), max(decision, patch) + 5, (2, 3)),
        )
        return path_of(turn).totals

    assert speculative(decision=400, patch=300) == {Stage.ENDPOINT_WAIT: 300, Stage.PLAYOUT_BUFFER: 5}
    assert speculative(decision=300, patch=400) == {
        Stage.ENDPOINT_WAIT: 40,
        Stage.LLM_PREFILL: 240,
        Stage.TTS_FIRST_PATCH: 20,
        Stage.PLAYOUT_BUFFER: 5,
    }


def test_causes_that_end_together_go_in_pipeline_order() -> None:
    turn = turn_from(
        100,
        (Stage.TTS_FIRST_PATCH, 100, 200, ()),
        (Stage.ENDPOINT_WAIT, 100, 200, ()),
        (Stage.PLAYOUT_BUFFER, 200, 210, (0, 1)),
    )
    assert path_of(turn).totals == {Stage.ENDPOINT_WAIT: 100, Stage.PLAYOUT_BUFFER: 10}


def test_where_a_cause_overlaps_the_step_keeps_the_overlap() -> None:
    turn = turn_from(100, (Stage.LLM_DECODE, 100, 280, ()), (Stage.TTS_SETUP, 250, 300, (0,)))
    assert [(s.stage, s.start_ns, s.end_ns) for s in path_of(turn).segments] == [
        (Stage.LLM_DECODE, 100, 250),
        (Stage.TTS_SETUP, 250, 300),
    ]
    inside = turn_from(100, (Stage.ENDPOINT_WAIT, 100, 200, ()), (Stage.LLM_DECODE, 260, 290, (0,)))
    inside.first_audio_step = inside.add(Stage.TTS_SETUP, 250, 300, [1])
    inside.first_audio_ns = 300
    assert path_of(inside).totals == {Stage.ENDPOINT_WAIT: 100, Stage.TTS_SETUP: 50, Stage.UNATTRIBUTED: 50}


def test_a_step_around_s_counts_only_from_s_on() -> None:
    turn = turn_from(150, (Stage.ASR_PARTIAL, 10, 90, ()), (Stage.ASR_FINALIZE, 100, 200, (0,)))
    assert path_of(turn).totals == {Stage.ASR_FINALIZE: 50}
    assert hidden(turn) == {Stage.ASR_PARTIAL: 80, Stage.ASR_FINALIZE: 50}


def test_hidden_is_what_ran_off_the_path_or_before_s() -> None:
    turn = answered()
    assert hidden(turn, before_ns=turn.first_audio_ns) == {
        Stage.SMART_TURN: 40 * MS,
        Stage.ASR_PARTIAL: 40 * MS,
        Stage.LLM_DECODE: 100 * MS,
        Stage.TTS_PATCHES: 30 * MS,
    }
    assert hidden(turn)[Stage.PLAYOUT_PLAY] == 1500 * MS
    assert hidden(interrupted()) == {Stage.ENDPOINT_WAIT: 200 * MS, Stage.ASR_FINALIZE: 60 * MS}


def test_any_turn_has_a_contiguous_path_that_sums_exactly() -> None:
    found = 0
    for seed in range(4000):
        turn = random_turn(random.Random(seed))
        path = critical_path(turn)
        if path is None:
            assert turn.latency_ns is None or turn.latency_ns < 0
            continue
        found += 1
        assert path.total_ns == sum(path.totals.values()) == turn.latency_ns
        assert all(segment.duration_ns > 0 for segment in path.segments)
        for before, after in itertools.pairwise(path.segments):
            assert before.end_ns == after.start_ns
        if path.segments:
            assert (path.segments[0].start_ns, path.segments[-1].end_ns) == (turn.speech_end_ns, turn.first_audio_ns)
        for segment in path.segments:
            if segment.step is None:
                assert segment.kind is None
                assert segment.stage is (Stage.QUEUE if segment.waited_for else Stage.UNATTRIBUTED)
            else:
                step = turn.steps[segment.step]
                assert (segment.stage, segment.kind) == (step.stage, step.kind)
                assert step.start_ns <= segment.start_ns < segment.end_ns <= step.end_ns
        steps = [segment.step for segment in path.segments if segment.step is not None]
        assert steps == sorted(steps)
        hidden_ns = sum(hidden(turn).values()) + sum(s.duration_ns for s in path.segments if s.step is not None)
        assert hidden_ns == sum(step.duration_ns for step in turn.steps)
    assert found > 1000


def test_kinds() -> None:
    kinds = {segment.stage: segment.kind for segment in path_of(answered()).segments}
    assert kinds[Stage.ENDPOINT_WAIT] is Kind.WAIT and kinds[Stage.PLAYOUT_BUFFER] is Kind.WAIT
    assert kinds[Stage.LLM_PREFILL] is Kind.WORK and kinds[Stage.HOST] is Kind.HOST
