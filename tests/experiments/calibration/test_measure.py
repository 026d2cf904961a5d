"""What each engine's calibration hands over, on engines whose times are known exactly."""

from collections.abc import Iterable

import numpy as np
import pytest

from agent.experiments.calibration.budget import Budget
from agent.experiments.calibration.measure_asr import measure_asr
from agent.experiments.calibration.measure_llm import measure_decode, measure_prefill
from agent.experiments.calibration.measure_tts import measure_tts
from agent.experiments.calibration.onnx_rates import onnx_rates
from profiling import operations as op
from profiling.calibration import FirstAudio, Sample
from profiling.trace.clock import SystemClock
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, speech
from tests.fakes.virtual_time import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def samples(items: Iterable[object]) -> list[Sample]:
    return [item for item in items if isinstance(item, Sample)]


def test_the_recogniser_hears_every_chunk_of_a_sentence_at_least_once(clock: VirtualClock) -> None:
    sound = speech("hello how are you today")  # 1 s: three whole chunks of 320 ms and a rest
    found = list(measure_asr(FakeAsr(clock), [sound], Budget(clock, 0)))
    assert [one.duration_s for one in found] == pytest.approx([0.03, 0.03, 0.03, 0.05])
    assert [one.units[op.ENCODED_S] for one in found] == pytest.approx([0.32, 0.64, 0.96, 1.0])
    assert all(one.operation == op.ASR_STEP and one.units[op.PASSES] == 2 for one in found)
    assert found[0].parts_s == pytest.approx({"encoder": 0.014, "decoder": 0.014}, abs=0.002)


def test_more_sentences_are_heard_while_there_is_time(clock: VirtualClock) -> None:
    sounds = [speech("hello how"), np.concatenate([speech("stop please then")] * 2)]
    found = list(measure_asr(FakeAsr(clock), sounds, Budget(clock, 0.3)))
    assert clock.now_ns() - 1_000_000_000 == pytest.approx(0.3e9, abs=0.06e9)
    assert len({one.units[op.ENCODED_S] for one in found}) > 4


def test_prompts_of_six_lengths_and_tokens_at_several_depths(clock: VirtualClock) -> None:
    engine = FakeLlm(clock, prefill_cost_s=0.1)
    prefills = list(measure_prefill(engine, Budget(clock, 0)))
    assert len({round(one.units[op.TOKENS], -1) for one in prefills}) == 6
    assert len({tuple(m.content for m in asked) for asked in engine.asked}) == len(engine.asked)  # no prompt twice
    tokens = list(measure_decode(FakeLlm(clock), Budget(clock, 0)))
    assert {one.duration_s for one in tokens} == {0.01}
    assert len({one.units[op.KV_BYTES] for one in tokens}) == len(tokens) > 3


def test_a_small_context_gets_the_prompts_that_fit(clock: VirtualClock) -> None:
    engine = FakeLlm(clock, context_tokens=128)
    assert max(one.units[op.TOKENS] for one in measure_prefill(engine, Budget(clock, 0))) <= 64


def test_the_voice_says_phrases_of_six_lengths_and_two_to_check_the_law_on(clock: VirtualClock) -> None:
    found = list(measure_tts(FakeTts(clock), Budget(clock, 0)))
    phrases = [one for one in found if isinstance(one, FirstAudio)]
    assert [one.checks for one in phrases].count(True) == 2
    assert len({one.units for one in phrases if not one.checks}) == 6
    for one in phrases:
        assert one.setup_s == pytest.approx(0.03)
        assert one.patch_ends_s == pytest.approx([0.03 + 0.04 * (at + 1) for at in range(len(one.patch_ends_s))])
        assert list(one.audio_ends_s) == sorted(one.audio_ends_s) and len(one.audio_ends_s) == len(one.patch_ends_s)
    by_operation = {name: [s for s in samples(found) if s.operation == name] for name in (op.SETUP, op.FIRST_PATCH)}
    assert len(by_operation[op.SETUP]) == len(by_operation[op.FIRST_PATCH]) == len(phrases)
    assert by_operation[op.FIRST_PATCH][0].units == {op.FORWARDS: 9.0}
    assert by_operation[op.FIRST_PATCH][0].parts_s == pytest.approx({"diffusion": 0.03, "vae": 0.01})


def test_the_arithmetic_of_onnx_runtime_is_measured_in_both_number_types() -> None:
    plain, integer = onnx_rates(SystemClock(), 1)
    assert (plain.key, integer.key) == ("float32 in ONNX Runtime, 1 thread", "int8 in ONNX Runtime, 1 thread")
    assert len(plain.values) == len(integer.values) == 9
    assert min(*plain.values, *integer.values) > 1e8
