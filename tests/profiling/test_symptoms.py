from dataclasses import replace

import pytest

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.calibration import Sample
from profiling.figures import Figures, figures
from profiling.interval import Interval
from profiling.symptoms import symptoms
from profiling.trace import vocabulary as v
from profiling.trace.vocabulary import Stage
from profiling.work_book import WorkBook
from tests.profiling.simulated import RATE, READ, calibration, turn_of, work
from tests.profiling.turns import MS

NOTHING = Figures(None, None, None, None, None, None, None, None)
# The 12B at 4 bit of reference.md, whose decode has the usual two thirds of the ceiling of 129 tokens/s.
USUAL = replace(
    NOTHING, decode_alone_s=0.01168, weight_bytes=7.0e9, kv_bytes=0.1e9, bytes_per_s=905e9, flops_per_s=2e14
)


def names(found) -> list[str]:
    return [each.name for each in found]


def test_a_run_that_shows_nothing_has_no_symptoms():
    assert symptoms(NOTHING) == []
    assert symptoms(NOTHING, NOTHING, []) == []
    assert symptoms(USUAL) == []
    assert symptoms(USUAL, USUAL) == []


def test_low_utilisation_and_slow_decode_is_bandwidth():
    (found,) = symptoms(replace(NOTHING, decode_cause="bandwidth", arithmetic_use=0.03))
    assert found.name == "low utilisation, slow decode" and "3 %" in found.symptom
    assert "bandwidth" in found.cause and "Quantise deeper" in found.advice
    assert symptoms(replace(NOTHING, decode_cause="bandwidth", arithmetic_use=0.7)) == []
    assert symptoms(replace(NOTHING, decode_cause="step overhead", arithmetic_use=0.03)) == []


def test_prefill_much_faster_than_decode_is_normal():
    """The 12B reads its prompt at 700 tokens/s and writes at 85.6."""
    (found,) = symptoms(replace(NOTHING, decode_alone_s=1 / 85.6, prefill_tokens_per_s=700))
    assert found.name == "prefill fast, decode slow" and "Speculative decoding" in found.advice
    assert symptoms(replace(NOTHING, decode_alone_s=1 / 85.6, prefill_tokens_per_s=100)) == []


def test_a_new_machine_with_the_same_bandwidth_decodes_at_the_same_speed():
    new = replace(USUAL, flops_per_s=4e14, decode_alone_s=0.0115)
    assert names(symptoms(new, USUAL)) == ["new machine, same speed"]
    assert symptoms(replace(new, bytes_per_s=1800e9, decode_alone_s=0.006), USUAL) == []
    assert symptoms(replace(new, flops_per_s=2.1e14), USUAL) == []
    assert names(symptoms(replace(new, bytes_per_s=1800e9), USUAL)) == ["half the estimate"]
    assert names(symptoms(replace(new, decode_cause="bandwidth"), USUAL)) == ["new machine, same speed"]
    assert symptoms(replace(new, decode_cause="step overhead"), USUAL) == []


def test_a_batch_slower_than_its_neighbours_promise_is_another_kernel():
    """The published batches of one core: two rows take four times as long as one, eight hardly longer than two."""
    published = [(1, 2.57e-3), (2, 10.65e-3), (8, 11.85e-3), (32, 18.36e-3), (128, 46.05e-3), (512, 125.61e-3)]
    (found,) = symptoms(NOTHING, batches=published)
    assert found.name == "small batches off the law"
    assert found.symptom.startswith("2 rows take 10.65 ms, where 1 takes 2.57 and 8 take 11.85")
    assert symptoms(NOTHING, batches=[(1, 2.5e-3), (2, 2.6e-3), (8, 3.0e-3), (32, 6e-3)]) == []
    assert symptoms(NOTHING, batches=published[:2]) == []


def test_half_of_the_estimate_is_a_long_context_or_poor_use_of_the_bandwidth():
    (short,) = symptoms(replace(USUAL, decode_alone_s=0.016))
    assert short.name == "half the estimate" and "not well used" in short.cause
    (long,) = symptoms(replace(USUAL, decode_alone_s=0.016, kv_bytes=3e9))
    assert "30 % of the bytes of a token are KV cache" in long.cause


def test_fewer_bytes_without_the_speed_is_dequantisation():
    """The 1.7B went from 3.22 to 1.90 GiB: 1.54 times as fast is well; 1.1 times would not be."""
    before = replace(NOTHING, decode_alone_s=1 / 68.8, weight_bytes=3.22, kv_bytes=0.0, bytes_per_s=300.0)
    published = replace(before, weight_bytes=1.90, decode_alone_s=1 / 105.7)
    assert "quantised, but no faster" not in names(symptoms(published, before))
    found = symptoms(replace(published, decode_alone_s=1 / 76), before)
    assert "quantised, but no faster" in names(found)
    assert "quantised, but no faster" not in names(symptoms(replace(published, bytes_per_s=200.0), before))


def test_figures_of_a_run():
    """Ten tokens of 12 ms alone, ten of 30 ms beside the voice; prompts at 500 tokens/s."""
    units = [{op.KV_BYTES: 5e6}] * 20
    turn = turn_of(op.TOKEN, [0.012] * 10 + [0.030] * 10, units)
    turn.add(Stage.TTS_SETUP, 120 * MS, 420 * MS)
    turn.add(Stage.LLM_PREFILL, 1000 * MS, 1200 * MS, attributes={v.LLM_EVALUATED_TOKENS: 100})
    alone = [Sample(operation=op.TOKEN, duration_s=0.012, units=units[0]) for _ in range(8)]
    book = WorkBook(operations={op.TOKEN: work(flops=0.1e9, read=95e6, read_per={op.KV_BYTES: 1})})
    ceilings = {READ: Interval.exactly(10e9), RATE: Interval.exactly(100e9)}
    found = figures(Attributor([turn], book, ceilings, calibration(alone)))
    assert found.decode_alone_s == pytest.approx(0.012)
    assert found.prefill_tokens_per_s == pytest.approx(500)
    assert (found.weight_bytes, found.kv_bytes) == (95e6, 5e6)
    assert (found.bytes_per_s, found.flops_per_s) == (10e9, 100e9)
    assert found.arithmetic_use == pytest.approx(20 * 0.001 / 0.420)
    assert found.ceiling_tokens_per_s == pytest.approx(10e9 / 95e6)
    assert figures(Attributor([], None, {}, None)) == NOTHING
