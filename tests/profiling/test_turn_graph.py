"""A turn's graph: evaluated without a change it is what was recorded; with one, what follows from the causes."""

import random

import numpy as np
import pytest

from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.turn_graph import TurnGraph, insert_before
from tests.profiling.turns import MS, answered, random_turn


def latency_ms(turn: Turn, **more_ms: int) -> float:
    """With the steps at these indices (s0, s1, ...) longer by so many ms."""
    longer = {
        int(name[1:]): np.array([turn.steps[int(name[1:])].duration_ns + ms * MS], np.int64)
        for name, ms in more_ms.items()
    }
    graph = TurnGraph(turn)
    first_audio_ns = graph.first_audio_ns(graph.evaluate(longer))
    assert first_audio_ns is not None and turn.speech_end_ns is not None
    return (int(first_audio_ns[0]) - turn.speech_end_ns) / MS


def replanted(turn: Turn, step: int, more_ms: int) -> Turn:
    graph = TurnGraph(turn)
    longer = np.array([turn.steps[step].duration_ns + more_ms * MS], np.int64)
    return graph.retimed(graph.evaluate({step: longer}))


def totals(turn: Turn) -> dict[Stage, int]:
    path = critical_path(turn)
    assert path is not None
    return path.totals


def index_of(turn: Turn, stage: Stage) -> int:
    return next(step.index for step in turn.steps if step.stage is stage)


def with_slack(slack_ms: int) -> Turn:
    """The reply's chain lasts `slack_ms` longer than the turn detector beside it; playback needs both."""
    turn = Turn("c", 1, 0, speech_end_ns=1000 * MS)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000 * MS, 1200 * MS)
    beside = turn.add(Stage.SMART_TURN, 1200 * MS, 1260 * MS, [wait])
    prefill = turn.add(Stage.LLM_PREFILL, 1200 * MS, (1260 + slack_ms) * MS, [wait])
    buffer = turn.add(Stage.PLAYOUT_BUFFER, (1260 + slack_ms) * MS, (1270 + slack_ms) * MS, [beside, prefill])
    turn.first_audio_step, turn.first_audio_ns = buffer, turn.steps[buffer].end_ns
    return turn


def test_without_a_change_every_step_of_10_000_random_turns_is_where_it_was() -> None:
    heard = 0
    for seed in range(10_000):
        turn = random_turn(random.Random(seed))
        graph = TurnGraph(turn)
        times = graph.evaluate()
        again = graph.retimed(times)
        assert [(s.start_ns, s.end_ns) for s in again.steps] == [(s.start_ns, s.end_ns) for s in turn.steps]
        assert (again.first_audio_ns, again.latency_ns) == (turn.first_audio_ns, turn.latency_ns)
        if seed % 10 == 0:
            assert critical_path(again) == critical_path(turn)
            alone = graph.retimed(graph.evaluate(only=graph.before_first_audio))
            assert alone.latency_ns == turn.latency_ns and critical_path(alone) == critical_path(turn)
        heard += turn.latency_ns is not None
    assert heard > 4000


@pytest.mark.parametrize(
    ("planted", "row"),
    [
        ("wait", Stage.ENDPOINT_WAIT),
        ("asr", Stage.ASR_FINALIZE),
        ("host", Stage.HOST),
        ("prefill", Stage.LLM_PREFILL),
        ("phrase", Stage.LLM_FIRST_PHRASE),
        ("setup", Stage.TTS_SETUP),
        ("patch", Stage.TTS_FIRST_PATCH),
        ("buffer", Stage.PLAYOUT_BUFFER),
        ("silence", Stage.PLAYOUT_LEADING_SILENCE),
    ],
)
def test_300_ms_planted_on_the_path_lengthen_its_stage_by_300_ms_and_no_other(planted: str, row: Stage) -> None:
    turn = answered()
    longer = replanted(turn, index_of(turn, row), 300)
    assert {s: totals(longer).get(s, 0) - totals(turn).get(s, 0) for s in Stage} == {
        s: 300 * MS if s is row else 0 for s in Stage
    }
    assert longer.latency_ns == turn.latency_ns + 300 * MS
    assert longer.latency_ns == answered({planted: 300}).latency_ns, "as where it really takes longer"


def test_300_ms_planted_beside_the_path_move_nothing_while_there_are_500_ms_of_slack() -> None:
    turn = with_slack(500)
    assert totals(replanted(turn, 1, 300)) == totals(turn)
    assert latency_ms(turn, s1=300) == latency_ms(turn) == 770


def test_slack_runs_out_and_the_path_switches() -> None:
    turn = with_slack(500)
    assert latency_ms(turn, s1=500) == 770
    assert latency_ms(turn, s1=700) == 970
    switched = totals(replanted(turn, 1, 700))
    assert switched == {Stage.ENDPOINT_WAIT: 200 * MS, Stage.SMART_TURN: 760 * MS, Stage.PLAYOUT_BUFFER: 10 * MS}
    assert latency_ms(turn, s2=-550) == 270, "a quicker chain gains its slack and no more"


def test_gaps_keep_their_length_and_a_negative_one_its_overlap() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=100)
    wait = turn.add(Stage.ENDPOINT_WAIT, 100, 200)
    host = turn.add(Stage.HOST, 230, 240, [wait])
    last = turn.add(Stage.PLAYOUT_BUFFER, 236, 300, [host])
    turn.first_audio_step, turn.first_audio_ns = last, 305
    graph = TurnGraph(turn)
    times = graph.evaluate({wait: np.array([50], np.int64)})
    again = graph.retimed(times)
    assert [(s.start_ns, s.end_ns) for s in again.steps] == [(100, 150), (180, 190), (186, 250)]
    assert again.first_audio_ns == 255


def test_a_step_that_waited_starts_when_its_holder_ends() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=1000)
    partial = turn.add(Stage.ASR_PARTIAL, 900, 1300)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000, 1200)
    final = turn.add(Stage.ASR_FINALIZE, 1302, 1400, [wait], waited_for="asr.partial")
    turn.first_audio_step, turn.first_audio_ns = final, 1400
    graph = TurnGraph(turn)

    def first_audio(**lasts: int) -> int:
        given = {{"partial": partial, "wait": wait}[name]: np.array([ns], np.int64) for name, ns in lasts.items()}
        found = graph.first_audio_ns(graph.evaluate(given))
        assert found is not None
        return int(found[0])

    assert first_audio() == 1400
    assert first_audio(wait=50) == 1400, "the holder held it all the same"
    assert first_audio(partial=350) == 1350
    assert first_audio(partial=100) == 1300, "never before its own cause has ended, and as long after it"
    assert not graph.nodes[final].unknown_holder


def test_a_step_that_waited_for_another_turn_starts_no_sooner() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=1000)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000, 1200)
    host = turn.add(Stage.HOST, 1500, 1501, [wait], waited_for="the reply before")
    turn.first_audio_step, turn.first_audio_ns = host, 1501
    graph = TurnGraph(turn)
    for lasts, expected in ((100, 1501), (200, 1501), (600, 1601)):
        found = graph.first_audio_ns(graph.evaluate({wait: np.array([lasts], np.int64)}))
        assert found is not None and int(found[0]) == expected
    assert graph.nodes[host].unknown_holder


def test_an_engine_does_one_thing_at_a_time_even_where_nothing_waited() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=1000)
    turn.add(Stage.ASR_PARTIAL, 900, 950)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000, 1200)
    final = turn.add(Stage.ASR_FINALIZE, 1200, 1260, [wait])
    turn.first_audio_step, turn.first_audio_ns = final, 1260
    again = TurnGraph(turn)
    slower = again.retimed(again.evaluate({0: np.array([400], np.int64)}))
    assert (slower.steps[2].start_ns, slower.latency_ns) == (1300, 360)


def test_what_the_user_causes_keeps_its_time() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=1000)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000, 1200)
    chunk = turn.add(Stage.ASR_CHUNK_WAIT, 1200, 1350, [wait])
    final = turn.add(Stage.ASR_FINALIZE, 1350, 1400, [chunk])
    turn.first_audio_step, turn.first_audio_ns = final, 1400
    graph = TurnGraph(turn)
    for hangover, expected in ((100, 1400), (300, 1400), (400, 1450)):
        found = graph.first_audio_ns(graph.evaluate({wait: np.array([hangover], np.int64)}))
        assert found is not None and int(found[0]) == expected, "a chunk ends when its sound has come"


def buffered() -> Turn:
    """Patches of 100 ms; playback begins with the third."""
    turn = Turn("c", 1, 0, speech_end_ns=1000 * MS)
    wait = turn.add(Stage.ENDPOINT_WAIT, 1000 * MS, 1200 * MS)
    first = turn.add(Stage.TTS_FIRST_PATCH, 1200 * MS, 1300 * MS, [wait], phrase=0)
    loop = {v.START_TIMES_NS: [0, 100 * MS, 200 * MS], v.END_TIMES_NS: [100 * MS, 200 * MS, 300 * MS]}
    turn.add(Stage.TTS_PATCHES, 1300 * MS, 1600 * MS, [first], phrase=0, attributes=loop)
    buffer = turn.add(Stage.PLAYOUT_BUFFER, 1301 * MS, 1502 * MS, [first])
    silence = turn.add(Stage.PLAYOUT_LEADING_SILENCE, 1502 * MS, 1520 * MS, [buffer])
    turn.first_audio_step, turn.first_audio_ns = silence, 1520 * MS
    return turn


def test_a_start_buffer_ends_with_the_patch_that_filled_it() -> None:
    turn = buffered()
    graph = TurnGraph(turn)
    fill = graph.nodes[3].fill
    assert fill is not None and (fill.step, fill.number, fill.lag_ns) == (2, 1, 2 * MS)
    assert graph.filled_after_ns(fill) == 202 * MS
    assert latency_ms(turn) == 520
    assert latency_ms(turn, s1=-40) == 480, "a quicker first patch brings all that follow it forward"
    times = graph.evaluate(fills_ns={3: (2, np.array([102 * MS], np.int64))})
    assert graph.retimed(times).latency_ns == 420 * MS
    assert graph.retimed(graph.evaluate(fills_ns={3: None})).latency_ns == 319 * MS


def test_draws_are_evaluated_side_by_side() -> None:
    turn = with_slack(500)
    graph = TurnGraph(turn)
    times = graph.evaluate({1: np.array([60 * MS, 660 * MS], np.int64)})
    assert [graph.retimed(times, draw).latency_ns for draw in (0, 1)] == [770 * MS, 870 * MS]


def test_a_step_of_no_length_put_in_moves_nothing() -> None:
    for seed in range(300):
        turn = random_turn(random.Random(seed))
        if not turn.steps:
            continue
        longer = insert_before(turn, len(turn.steps) // 2, Stage.LLM_THINKING)
        assert len(longer.steps) == len(turn.steps) + 1
        assert all(step.index == place for place, step in enumerate(longer.steps))
        graph = TurnGraph(longer)
        again = graph.retimed(graph.evaluate())
        assert [(s.start_ns, s.end_ns) for s in again.steps] == [(s.start_ns, s.end_ns) for s in longer.steps]
        assert again.latency_ns == turn.latency_ns
