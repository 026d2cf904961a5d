import random

import numpy as np
import pytest

from profiling import operations as op
from profiling.operation_table import tables
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.profiling.turns import MS, answered, random_turn


def test_the_columns_hold_the_operations_of_all_turns():
    rng = random.Random(3)
    turns = [random_turn(rng, index) for index in range(200)] + [answered()]
    found = tables(turns)
    for name, table in found.items():
        expected = [(n, o) for n, turn in enumerate(turns) for o in op.operations(turn) if o.name == name]
        assert len(table) == len(expected)
        assert table.turn.tolist() == [number for number, _ in expected]
        assert table.step.tolist() == [o.step for _, o in expected]
        assert table.start_ns.tolist() == [o.start_ns for _, o in expected]
        assert table.end_ns.tolist() == [max(o.start_ns, o.end_ns) for _, o in expected]
        assert table.stage.tolist() == [o.stage.order for _, o in expected]
        for row, (_, operation) in enumerate(expected):
            told = {unit: values[row] for unit, values in table.units.items() if not np.isnan(values[row])}
            assert told == operation.units
    assert set(found) == {o.name for turn in turns for o in op.operations(turn)}


def test_work_of_other_engines_overlaps_and_that_of_the_same_one_does_not():
    turn = Turn("c", 1, 0)
    turn.add(Stage.LLM_PREFILL, 0, 100 * MS)
    turn.add(Stage.ASR_PARTIAL, 20 * MS, 50 * MS)
    turn.add(Stage.TTS_SETUP, 40 * MS, 60 * MS)
    turn.add(Stage.LLM_DECODE, 10 * MS, 90 * MS)
    turn.add(Stage.ENDPOINT_WAIT, 0, 100 * MS)
    turn.add(Stage.HOST, 0, 100 * MS)
    found = tables([turn])
    assert found[op.PREFILL].overlap_s.tolist() == [pytest.approx(0.040)]
    assert found[op.SETUP].overlap_s.tolist() == [pytest.approx(0.020)]
    assert found[op.ASR_STEP].overlap_s.tolist() == [pytest.approx(0.030)]


def test_a_pause_between_the_passes_of_a_loop_is_no_work_beside():
    turn = Turn("c", 1, 0)
    passes = {v.START_TIMES_NS: [0, 80 * MS], v.END_TIMES_NS: [10 * MS, 90 * MS]}
    turn.add(Stage.LLM_DECODE, 0, 100 * MS, attributes=passes)
    turn.add(Stage.TTS_SETUP, 5 * MS, 85 * MS)
    assert tables([turn])[op.SETUP].overlap_s.tolist() == [pytest.approx(0.010)]


def test_the_listening_of_the_next_turn_lies_beside_this_ones_reply():
    speaking, listening = Turn("c", 1, 0), Turn("c", 2, 0)
    speaking.add(Stage.TTS_SETUP, 0, 50 * MS)
    listening.add(Stage.ASR_PARTIAL, 30 * MS, 70 * MS)
    assert tables([speaking, listening])[op.SETUP].overlap_s.tolist() == [pytest.approx(0.020)]


def test_overlap_equals_counting_every_instant():
    rng = random.Random(11)
    stages = (Stage.LLM_PREFILL, Stage.ASR_PARTIAL, Stage.TTS_SETUP, Stage.VAD)
    for _ in range(50):
        turn = Turn("c", 1, 0)
        for _ in range(rng.randrange(1, 15)):
            start = rng.randrange(60)
            turn.add(rng.choice(stages), start, start + rng.choice((0, 1, rng.randrange(25))))
        for name, table in tables([turn]).items():
            others = {
                t for s in turn.steps if s.stage.value.split(".")[0] not in name for t in range(s.start_ns, s.end_ns)
            }
            if name == op.VAD:
                others = {t for s in turn.steps if s.stage is not Stage.VAD for t in range(s.start_ns, s.end_ns)}
            expected = [len(others & set(range(a, b))) for a, b in zip(table.start_ns, table.end_ns, strict=True)]
            assert (table.overlap_s * 1e9).round().tolist() == expected


def test_rows_are_chosen_by_turn_and_by_stage():
    table = tables([answered(), answered(index=2)])[op.TOKEN]
    assert len(table.of_turn(1)) == len(table) // 2
    assert set(table.of_turn(1).turn.tolist()) == {1}
    assert table.stages == [Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE]
    assert table.of_stages(Stage.LLM_DECODE).stages == [Stage.LLM_DECODE]
    assert len(table.of_turn(7)) == 0
