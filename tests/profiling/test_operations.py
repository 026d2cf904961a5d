"""What the engines did in a turn, operation by operation: units, passes, parts of every stage, and what is missing."""

import math
import random

import pytest

from profiling import operations as o
from profiling.operations import Operation, operations, operations_of
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.trace.vocabulary import Stage
from tests.profiling.turns import random_turn

START = 5_000
TIMES: dict[str, Attribute] = {v.START_TIMES_NS: (0, 100, 200), v.END_TIMES_NS: (90, 180, 290)}


def step(stage: Stage, attributes: dict[str, Attribute] | None = None, lasts_ns: int = 300) -> Step:
    turn = Turn("c", 1, 0)
    turn.add(Stage.HOST, 0, 1)
    turn.add(stage, START, START + lasts_ns, attributes=attributes)
    return turn.steps[1]


def whole(name: str, stage: Stage, units: dict[str, float], parts_ns: dict[str, int] | None = None) -> list[Operation]:
    return [Operation(name, stage, 1, START, START + 300, units, parts_ns or {})]


@pytest.mark.parametrize("stage", [Stage.ASR_PARTIAL, Stage.ASR_FINALIZE])
def test_a_step_of_the_recogniser_is_one_operation_with_its_passes_counted_and_its_parts_summed(stage: Stage) -> None:
    encoder, decoder = v.ASR_PART_NS.format("encoder"), v.ASR_PART_NS.format("decoder")
    found = operations_of(
        step(stage, {v.ASR_ENCODED_S: 1.5, v.ASR_TOKENS: 7, encoder: (50, 60), decoder: (5, 6), **TIMES})
    )
    units = {o.ENCODED_S: 1.5, o.TOKENS: 7, o.PASSES: 3}
    assert list(found) == whole(o.ASR_STEP, stage, units, {"encoder": 110, "decoder": 11})


def test_prefill_counts_the_tokens_that_were_evaluated_not_those_of_the_prompt() -> None:
    found = operations_of(step(Stage.LLM_PREFILL, {v.LLM_EVALUATED_TOKENS: 26, v.INPUT_TOKENS: 130}))
    assert list(found) == whole(o.PREFILL, Stage.LLM_PREFILL, {o.TOKENS: 26})


@pytest.mark.parametrize("stage", [Stage.LLM_THINKING, Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE])
def test_every_token_is_an_operation_that_reads_its_own_cache(stage: Stage) -> None:
    found = list(operations_of(step(stage, {v.LLM_KV_BYTES: (10, 20, 30), **TIMES})))
    assert [(one.start_ns, one.end_ns) for one in found] == [(5000, 5090), (5100, 5180), (5200, 5290)]
    assert [one.duration_ns for one in found] == [90, 80, 90]
    assert [one.units for one in found] == [{o.KV_BYTES: 10}, {o.KV_BYTES: 20}, {o.KV_BYTES: 30}]
    assert {(one.name, one.stage, one.step) for one in found} == {(o.TOKEN, stage, 1)}


def test_set_up_has_its_units_and_parts() -> None:
    parts: dict[str, Attribute] = {v.TTS_SETUP_PART_NS.format("phonemes"): 40, v.TTS_SETUP_PART_NS.format("encode"): 99}
    found = operations_of(step(Stage.TTS_SETUP, {v.TTS_UNITS: 31, **parts}))
    assert list(found) == whole(o.SETUP, Stage.TTS_SETUP, {o.UNITS: 31}, {"phonemes": 40, "encode": 99})


@pytest.mark.parametrize(("stage", "name"), [(Stage.TTS_FIRST_PATCH, o.FIRST_PATCH), (Stage.TTS_PATCHES, o.PATCH)])
def test_every_patch_is_an_operation_with_its_own_parts_and_forwards(stage: Stage, name: str) -> None:
    parts: dict[str, Attribute] = {
        v.TTS_PATCH_PART_NS.format("diffusion"): (60, 50, 61),
        v.TTS_PATCH_PART_NS.format("vae"): (9, 8, 7),
    }
    found = list(operations_of(step(stage, {v.TTS_FORWARDS: (9, 9, 4), **parts, **TIMES})))
    assert [one.name for one in found] == [name] * 3
    assert [one.units for one in found] == [{o.FORWARDS: 9}, {o.FORWARDS: 9}, {o.FORWARDS: 4}]
    assert [one.parts_ns for one in found] == [
        {"diffusion": 60, "vae": 9},
        {"diffusion": 50, "vae": 8},
        {"diffusion": 61, "vae": 7},
    ]


@pytest.mark.parametrize(("stage", "name"), [(Stage.VAD, o.VAD), (Stage.SMART_TURN, o.SMART_TURN)])
def test_listening_has_no_units(stage: Stage, name: str) -> None:
    assert list(operations_of(step(stage))) == whole(name, stage, {})


@pytest.mark.parametrize(
    "stage",
    [
        Stage.HOST,
        Stage.ENDPOINT_WAIT,
        Stage.ASR_CHUNK_WAIT,
        Stage.PLAYOUT_BUFFER,
        Stage.PLAYOUT_LEADING_SILENCE,
        Stage.PLAYOUT_PLAY,
    ],
)
def test_what_is_no_engines_work_is_no_operation(stage: Stage) -> None:
    assert list(operations_of(step(stage, dict(TIMES)))) == []


def test_a_loop_whose_passes_were_not_recorded_is_one_operation_of_unknown_units() -> None:
    for missing in (v.START_TIMES_NS, v.END_TIMES_NS):
        times = {key: value for key, value in TIMES.items() if key != missing}
        found = operations_of(step(Stage.LLM_DECODE, {v.LLM_KV_BYTES: (1, 2, 3), **times}))
        assert list(found) == whole(o.TOKEN, Stage.LLM_DECODE, {})
    patch = step(Stage.TTS_PATCHES, {v.TTS_PATCH_PART_NS.format("vae"): (9, 8, 7)})
    assert list(operations_of(patch)) == whole(o.PATCH, Stage.TTS_PATCHES, {}, {"vae": 24})


def test_what_an_engine_did_not_tell_is_left_out_never_nought() -> None:
    assert [one.units for one in operations_of(step(Stage.LLM_DECODE, dict(TIMES)))] == [{}, {}, {}]
    assert next(operations_of(step(Stage.LLM_PREFILL))).units == {}
    assert next(operations_of(step(Stage.TTS_SETUP))).units == {}
    assert next(operations_of(step(Stage.ASR_FINALIZE, {v.ASR_TOKENS: 7}))).units == {o.TOKENS: 7}
    short: dict[str, Attribute] = {v.TTS_FORWARDS: (9,), v.TTS_PATCH_PART_NS.format("vae"): (9, 8)}
    found = list(operations_of(step(Stage.TTS_PATCHES, {**short, **TIMES})))
    assert [one.units for one in found] == [{o.FORWARDS: 9}, {}, {}]
    assert [one.parts_ns for one in found] == [{"vae": 9}, {"vae": 8}, {}]


@pytest.mark.parametrize("strange", ["text", True, (), ("a", "b"), (1, "b", 3), (math.nan, 1.0, 2.0), (math.inf,)])
def test_a_strange_value_is_an_unknown_one(strange: Attribute) -> None:
    counts = operations_of(step(Stage.LLM_DECODE, {v.LLM_KV_BYTES: strange, **TIMES}))
    assert [one.units for one in counts] == [{}, {}, {}]
    times = operations_of(step(Stage.LLM_DECODE, {v.START_TIMES_NS: strange, v.END_TIMES_NS: (1, 2, 3)}))
    assert list(times) == whole(o.TOKEN, Stage.LLM_DECODE, {})
    parts = operations_of(step(Stage.TTS_SETUP, {v.TTS_SETUP_PART_NS.format("encode"): strange}))
    assert next(parts).parts_ns == {}


def test_times_of_different_lengths_give_the_passes_that_have_both() -> None:
    found = operations_of(step(Stage.LLM_DECODE, {v.START_TIMES_NS: (0, 100, 200), v.END_TIMES_NS: (90, 180)}))
    assert [one.duration_ns for one in found] == [90, 80]


def test_operations_of_a_turn_come_in_the_order_of_its_steps() -> None:
    for seed in range(200):
        turn = random_turn(random.Random(seed))
        found = operations(turn)
        assert [one.step for one in found] == sorted(one.step for one in found)
        assert all(turn.steps[one.step].stage is one.stage and one.name in o.OPERATIONS for one in found)
