import pytest

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.calibration import Sample
from profiling.interval import Interval
from profiling.patch_loop import LATENCY, WHOLE_REPLY, LoopVerdict, loop_verdicts
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.work_book import Linear, WorkBook
from tests.profiling.simulated import RATE, READ, calibration, work
from tests.profiling.turns import MS

EXACT = {READ: Interval.exactly(10e9), RATE: Interval.exactly(100e9)}
PATCH = work(read_per={op.FORWARDS: 10e6}, steps=Linear(per={op.FORWARDS: 1}))  # 1 ms for each pass
TOKEN = work(read=100e6)  # 10 ms


def run(per_forward_s: float, fixed_s: float, spread: float = 0.0) -> Attributor:
    """Two turns, each of two phrases of a first patch and three more, ten passes each; ten tokens to each phrase. The
    calibration is off by up to `spread`."""

    def alone_s(forwards: float, off: float) -> float:
        return (fixed_s + forwards * (0.001 + per_forward_s)) * (1 + off * spread)

    alone = [
        Sample(operation=name, duration_s=alone_s(forwards, off), units={op.FORWARDS: forwards})
        for name in (op.FIRST_PATCH, op.PATCH)
        for forwards in (4.0, 10.0, 16.0)
        for off in (-1, 0, 1)
    ]
    alone += [Sample(operation=op.TOKEN, duration_s=0.012, units={op.KV_BYTES: 0.0}) for _ in range(6)]
    patch_ns = round((fixed_s + 10 * (0.001 + per_forward_s)) * 1e9)
    return Attributor(
        [_turn(patch_ns, index) for index in range(2)],
        WorkBook(operations={op.FIRST_PATCH: PATCH, op.PATCH: PATCH, op.TOKEN: TOKEN}),
        EXACT,
        calibration(alone),
    )


def _turn(patch_ns: int, index: int) -> Turn:
    turn = Turn("c", index, index * 10**12)
    now = turn.speech_start_ns
    for phrase, stage in enumerate((Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE)):
        for loop, lasts_ns, passes, facts in (
            (stage, 12 * MS, 10, {v.LLM_KV_BYTES: [0] * 10}),
            (Stage.TTS_FIRST_PATCH, patch_ns, 1, {v.TTS_FORWARDS: [10]}),
            (Stage.TTS_PATCHES, patch_ns, 3, {v.TTS_FORWARDS: [10] * 3}),
        ):
            ends = [lasts_ns * (number + 1) for number in range(passes)]
            times = {v.START_TIMES_NS: [0, *ends[:-1]], v.END_TIMES_NS: ends}
            turn.add(loop, now, now + ends[-1], phrase=phrase, attributes={**times, **facts})
            now += ends[-1]
    return turn


def of(found: list[LoopVerdict], loop: str, scope: str) -> LoopVerdict:
    (one,) = [each for each in found if (each.loop, each.scope) == (loop, scope)]
    return one


def test_the_first_patch_counts_for_the_latency_and_all_of_them_for_the_reply():
    found = loop_verdicts(run(0.004, 0.010))
    latency, whole = of(found, "patch loop", LATENCY), of(found, "patch loop", WHOLE_REPLY)
    assert (latency.count, whole.count) == (2, 16)
    assert latency.floor.value == pytest.approx(2 * 0.010)
    assert latency.above.value == pytest.approx(2 * 0.040, rel=1e-3)
    assert whole.floor.value == pytest.approx(16 * 0.010)
    assert whole.above.value == pytest.approx(16 * 0.050, rel=1e-3)
    assert (latency.decides, whole.decides) == (True, True)
    assert latency.sentence == (
        "2 patches to the first sound: 80.0 of 120.0 ms above the floor (67 %): the patch loop decides."
    )


def test_a_loop_that_costs_less_than_its_floor_does_not_decide():
    found = loop_verdicts(run(0.0001, 0.001))
    assert of(found, "patch loop", LATENCY).decides is False
    assert of(found, "patch loop", WHOLE_REPLY).decides is False


def test_as_much_above_the_floor_as_below_is_not_certain():
    uncertain = loop_verdicts(run(0.001, 0.0, spread=0.1))
    verdict = of(uncertain, "patch loop", LATENCY)
    assert verdict.decides is None
    assert verdict.experiment and "turnscope study patch" in verdict.experiment


def test_tokens_to_the_end_of_the_first_phrase_are_judged_like_the_first_patch():
    found = loop_verdicts(run(0.004, 0.010))
    latency, whole = of(found, "step overhead", LATENCY), of(found, "step overhead", WHOLE_REPLY)
    assert (latency.count, whole.count) == (20, 40)
    assert latency.above.value == pytest.approx(20 * 0.002, rel=1e-3)
    assert whole.decides is False


def test_a_single_turn_is_judged_by_itself():
    found = loop_verdicts(run(0.004, 0.010), turn=1)
    assert of(found, "patch loop", LATENCY).count == 1
    assert of(found, "patch loop", WHOLE_REPLY).count == 8


def test_there_is_no_verdict_without_calibration_or_work():
    whole = run(0.004, 0.010)
    turns = [_turn(50 * MS, 0)]
    book = WorkBook(operations={op.FIRST_PATCH: PATCH, op.PATCH: PATCH})
    assert loop_verdicts(Attributor(turns, book, EXACT, None)) == []
    assert loop_verdicts(Attributor(turns, None, EXACT, whole._calibration)) == []
    assert loop_verdicts(Attributor([], book, EXACT, None)) == []
