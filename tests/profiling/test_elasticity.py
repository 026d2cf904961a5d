import pytest

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.calibration import Sample
from profiling.elasticity import (
    FORWARD_FEWER,
    MORE_BANDWIDTH,
    MORE_COMPUTE,
    PATCH_FEWER,
    TOKEN_FEWER,
    Elasticity,
    elasticities,
)
from profiling.interval import Interval
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.work_book import Linear, WorkBook
from tests.profiling.simulated import RATE, READ, calibration, work
from tests.profiling.turns import MS, interrupted

EXACT = {READ: Interval.exactly(10e9), RATE: Interval.exactly(100e9)}
BOOK = WorkBook(
    operations={
        op.PREFILL: work(flops_per={op.TOKENS: 0.1e9}, read=100e6),  # 1 ms a token; 10 ms of reading
        op.TOKEN: work(flops=0.1e9, read=100e6),  # 10 ms of reading, 1 ms of arithmetic
        op.FIRST_PATCH: work(read_per={op.FORWARDS: 10e6}, steps=Linear(per={op.FORWARDS: 1})),  # 1 ms a pass
    }
)
ALONE = calibration(
    [
        Sample(operation=op.FIRST_PATCH, duration_s=0.005 + forwards * 0.003, units={op.FORWARDS: forwards})
        for forwards in (4.0, 7.0, 10.0)
        for _ in range(3)
    ]
)


def answered(index: int = 0) -> Turn:
    """From 1000 ms: prefill of 100 tokens 120 ms, ten tokens of 12 ms, a first patch of nine passes 32 ms. Beside it a
    decode that is not on the path. 272 ms in all."""
    start = index * 10_000
    turn = Turn("c", index, start * MS, speech_end_ns=(start + 1000) * MS)

    def at(ms: float) -> int:
        return round((start + ms) * MS)

    prefill = turn.add(Stage.LLM_PREFILL, at(1000), at(1120), attributes={v.LLM_EVALUATED_TOKENS: 100})
    ends = [12 * MS * (number + 1) for number in range(10)]
    times = {v.START_TIMES_NS: [0, *ends[:-1]], v.END_TIMES_NS: ends, v.LLM_KV_BYTES: [0] * 10}
    phrase = turn.add(Stage.LLM_FIRST_PHRASE, at(1120), at(1240), [prefill], attributes=times)
    turn.add(Stage.LLM_DECODE, at(1240), at(1360), [phrase], attributes=times)
    pass_ns = {v.START_TIMES_NS: [0], v.END_TIMES_NS: [32 * MS], v.TTS_FORWARDS: [9]}
    patch = turn.add(Stage.TTS_FIRST_PATCH, at(1240), at(1272), [phrase], attributes=pass_ns)
    turn.first_audio_ns, turn.first_audio_step = at(1272), patch
    return turn


def by_change(found: list[Elasticity]) -> dict[str, Elasticity]:
    return {each.change: each for each in found}


def test_one_percent_more_bandwidth_shortens_what_reading_bounds():
    turns = [answered()]
    found = by_change(elasticities(Attributor(turns, BOOK, EXACT, ALONE), turns))
    bandwidth, compute = found[MORE_BANDWIDTH], found[MORE_COMPUTE]
    assert bandwidth.saved_ms and bandwidth.saved_ms.value == pytest.approx((100 + 9) * (1 - 1 / 1.01))
    assert bandwidth.percent and bandwidth.percent.value == pytest.approx(bandwidth.saved_ms.value / 2.72)
    assert compute.saved_ms and compute.saved_ms.value == pytest.approx(100 * (1 - 1 / 1.01))
    assert bandwidth.without == ()


def test_a_term_at_the_ridge_is_shortened_by_neither():
    turns = [answered()]
    even = WorkBook(operations={op.TOKEN: work(flops=1e9, read=100e6)})
    found = by_change(elasticities(Attributor(turns, even, EXACT, ALONE), turns))
    for change in (MORE_BANDWIDTH, MORE_COMPUTE):
        saved_ms = found[change].saved_ms
        assert saved_ms and saved_ms.value == pytest.approx(0)
        assert found[change].without == (op.PREFILL, op.FIRST_PATCH)


def test_one_serial_step_fewer_spares_what_it_costs():
    turns = [answered()]
    found = by_change(elasticities(Attributor(turns, BOOK, EXACT, ALONE), turns))
    token, forward = found[TOKEN_FEWER].saved_ms, found[FORWARD_FEWER].saved_ms
    assert token and token.value == pytest.approx(12)
    assert forward and forward.value == pytest.approx(1 + 2, rel=1e-3)
    assert PATCH_FEWER not in found


def test_work_before_the_end_of_speech_gives_only_what_lies_after_it():
    turn = answered()
    turn.speech_end_ns = 1090 * MS
    found = by_change(elasticities(Attributor([turn], BOOK, EXACT, ALONE), [turn]))
    saved_ms = found[MORE_COMPUTE].saved_ms
    assert saved_ms and saved_ms.value == pytest.approx(25 * (1 - 1 / 1.01))


def test_over_a_run_it_is_the_mean_of_the_turns_that_have_a_latency():
    turns = [answered(0), interrupted(), answered(1)]
    run = Attributor(turns, BOOK, EXACT, ALONE)
    whole, first = by_change(elasticities(run, turns)), by_change(elasticities(run, turns, 0))
    for change, one in first.items():
        assert whole[change].turns == 2
        assert one.saved_ms and whole[change].saved_ms
        assert whole[change].saved_ms.value == pytest.approx(one.saved_ms.value)
    assert elasticities(run, turns, 1) == []


def test_what_is_not_known_is_none():
    turns = [answered()]
    found = by_change(elasticities(Attributor(turns, None, EXACT, None), turns))
    assert found[MORE_BANDWIDTH].saved_ms is None and found[FORWARD_FEWER].saved_ms is None
    assert found[TOKEN_FEWER].saved_ms is not None
