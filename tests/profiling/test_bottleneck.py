import random

import pytest

from profiling import operations as op
from profiling.bottleneck import Attribution, Attributor, attribute
from profiling.calibration import Rates, Sample
from profiling.elasticity import elasticities
from profiling.figures import figures
from profiling.interval import Interval
from profiling.patch_loop import loop_verdicts
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.verdict import BANDWIDTH, COMPUTE, CONTENTION, FIXED, INCONCLUSIVE, STEP_OVERHEAD
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook
from tests.profiling.simulated import RATE, READ, World, bandwidth_bound, book, calibration, turn_of, work
from tests.profiling.turns import MS, random_turn

EXACT = {READ: Interval.exactly(10e9), RATE: Interval.exactly(100e9)}


def samples(operation: str, durations: dict[float, float], unit: str, times: int = 3) -> list[Sample]:
    return [
        Sample(operation=operation, duration_s=seconds, units={unit: value})
        for value, seconds in durations.items()
        for _ in range(times)
    ]


def only(found: list[Attribution], operation: str) -> Attribution:
    (one,) = [each for each in found if each.operation == operation]
    return one


def values(found: Attribution) -> dict[str, float]:
    return {name: round(share.value, 9) for name, share in found.shares.items()}


def test_each_term_goes_to_the_side_that_bounds_it():
    """One part reads 100 MB (10 ms at 10 GB/s) and computes 0.2 GFLOP (2 ms at 100 GFLOP/s), the other computes 0.6
    GFLOP (6 ms) and reads 10 MB (1 ms); a step costs 4 ms more."""
    read = TermLaw(part="a", rate=RATE, read=READ, flops=Linear(constant=0.2e9), bytes=Linear(constant=100e6))
    compute = TermLaw(part="b", rate=RATE, read=READ, flops=Linear(constant=0.6e9), bytes=Linear(constant=10e6))
    alone = samples(op.TOKEN, {0.0: 0.020}, op.KV_BYTES, 8)
    turn = turn_of(op.TOKEN, [0.021] * 5, [{}] * 5)
    found = only(
        attribute([turn], book(op.TOKEN, OperationWork(terms=(read, compute))), EXACT, calibration(alone)), op.TOKEN
    )
    assert values(found) == pytest.approx(
        {COMPUTE: 0.030, BANDWIDTH: 0.050, STEP_OVERHEAD: 0.020, FIXED: 0, CONTENTION: 0, "residual": 0.005}
    )
    assert found.seconds == pytest.approx(0.105)
    assert (found.count, found.steps, found.untold, found.unknown) == (5, 5.0, 0, {})
    assert found.verdict.cause == BANDWIDTH
    assert found.stages == (Stage.LLM_DECODE,)


def test_steps_that_vary_tell_the_fixed_part_from_the_steps():
    """20 ms, and 3 ms for each pass; the floor is 1 ms for each."""
    passes = work(read_per={op.PASSES: 10e6}, steps=Linear(per={op.PASSES: 1}))
    alone = samples(op.ASR_STEP, {1.0: 0.024, 2.0: 0.028, 5.0: 0.040}, op.PASSES)
    turn = turn_of(op.ASR_STEP, [0.028, 0.032], [{op.PASSES: 2.0}, {op.PASSES: 3.0}])
    found = only(attribute([turn], book(op.ASR_STEP, passes), EXACT, calibration(alone)), op.ASR_STEP)
    assert values(found) == pytest.approx(
        {COMPUTE: 0, BANDWIDTH: 0.005, STEP_OVERHEAD: 0.015, FIXED: 0.040, CONTENTION: 0, "residual": 0}, abs=1e-7
    )
    assert found.verdict.cause == FIXED


def test_the_cost_above_the_floor_of_one_step_is_fixed_outside_a_loop_and_repeated_inside_one():
    for operation, cause in ((op.SETUP, FIXED), (op.PATCH, "patch loop")):
        unit = op.UNITS if operation == op.SETUP else op.FORWARDS
        alone = samples(operation, {9.0: 0.050}, unit, 8)
        turn = turn_of(operation, [0.050] * 6, [{unit: 9.0}] * 6)
        found = only(attribute([turn], book(operation, work(read=100e6)), EXACT, calibration(alone)), operation)
        assert found.verdict.cause == cause
        assert found.shares[cause].value == pytest.approx(0.240)


def test_a_cost_that_grows_with_the_floor_is_not_taken_for_a_fixed_one():
    """A prefill at three quarters of the peak, and 5 ms for each prompt, calibrated mostly at larger prompts."""
    prefill = work(flops_per={op.TOKENS: 1e9})  # 10 ms per token
    sizes = (10, 40, 160, 640)
    alone = samples(op.PREFILL, {float(n): n * 0.010 / 0.75 + 0.005 for n in sizes}, op.TOKENS)
    turn = turn_of(op.PREFILL, [20 * 0.010 / 0.75 + 0.005] * 4, [{op.TOKENS: 20.0}] * 4)
    found = only(attribute([turn], book(op.PREFILL, prefill), EXACT, calibration(alone)), op.PREFILL)
    assert found.fixed and found.fixed.value == pytest.approx(0.020, rel=1e-3)
    assert found.residual.value == pytest.approx(4 * 0.2 / 3, rel=1e-3)
    assert found.verdict.cause == COMPUTE


def beside(durations: list[float], work_beside_s: float) -> Turn:
    turn = turn_of(op.TOKEN, durations, [{op.KV_BYTES: 0.0}] * len(durations))
    turn.add(Stage.TTS_SETUP, 0, round(work_beside_s * 1e9))
    return turn


def test_contention_is_what_a_step_takes_longer_beside_other_work():
    decode, alone = work(read=100e6), samples(op.TOKEN, {0.0: 0.012}, op.KV_BYTES, 8)
    turn = beside([0.030] * 4 + [0.012] * 2, 0.120)
    found = only(attribute([turn], book(op.TOKEN, decode), EXACT, calibration(alone)), op.TOKEN)
    assert found.contention and found.contention.value == pytest.approx(4 * 0.018)
    assert found.overlap_s == pytest.approx(0.120)
    assert found.residual.value == pytest.approx(0, abs=1e-9)


def test_contention_is_at_most_the_time_beside_other_work():
    decode, alone = work(read=100e6), samples(op.TOKEN, {0.0: 0.012}, op.KV_BYTES, 8)
    found = only(attribute([beside([0.030], 0.002)], book(op.TOKEN, decode), EXACT, calibration(alone)), op.TOKEN)
    assert found.contention and found.contention.value == pytest.approx(0.002)
    assert found.residual.value == pytest.approx(0.016)


def test_a_step_that_nothing_slowed_has_no_contention_though_work_lay_beside_it():
    decode, alone = work(read=100e6), samples(op.TOKEN, {0.0: 0.012}, op.KV_BYTES, 8)
    found = only(attribute([beside([0.012], 0.012)], book(op.TOKEN, decode), EXACT, calibration(alone)), op.TOKEN)
    assert found.contention and found.contention.value == pytest.approx(0, abs=1e-9)


def test_the_calibration_is_held_against_the_ceilings_of_its_own_time():
    """The machine read at 5 GB/s then and reads at 10 GB/s now: the steps' own 4 ms are the same."""
    decode = work(read=100e6)
    alone = samples(op.TOKEN, {0.0: 0.024}, op.KV_BYTES, 8)
    then = calibration(alone).model_copy(update={"ceilings": (_rates(READ, 5e9), _rates(RATE, 100e9))})
    turn = turn_of(op.TOKEN, [0.014] * 5, [{}] * 5)
    found = only(attribute([turn], book(op.TOKEN, decode), EXACT, then), op.TOKEN)
    assert found.loop and found.loop.value == pytest.approx(0.020)
    assert found.residual.value == pytest.approx(0, abs=1e-9)


def _rates(key: str, value: float) -> Rates:
    return Rates(name=key.split(",")[0], unit="per s", device="cpu", threads=2, values=(value,) * 6)


def test_without_a_work_book_only_contention_and_the_rest_are_known():
    alone = samples(op.TOKEN, {0.0: 0.012}, op.KV_BYTES, 8)
    found = only(attribute([beside([0.030], 0.030)], None, EXACT, calibration(alone)), op.TOKEN)
    assert (found.compute, found.bandwidth, found.loop, found.fixed) == (None, None, None, None)
    assert found.contention and found.contention.value == pytest.approx(0.018)
    assert found.residual.value == pytest.approx(0.012)
    assert found.unknown[COMPUTE] == "The work of llm.token is not known."
    assert found.verdict.cause == CONTENTION
    found = only(attribute([turn_of(op.TOKEN, [0.03], [{}])], None, EXACT, calibration(alone)), op.TOKEN)
    assert found.verdict.experiment and "turnscope study engines" in found.verdict.experiment


def test_a_law_of_too_few_measurements_tells_nothing_of_contention():
    alone = samples(op.TOKEN, {0.0: 0.012}, op.KV_BYTES, 2)
    found = only(attribute([beside([0.030], 0.030)], None, EXACT, calibration(alone)), op.TOKEN)
    assert found.contention is None
    assert found.unknown[CONTENTION] == "llm.token was measured alone too few times."


def test_without_a_calibration_the_floor_is_known_and_the_rest_is_residual():
    found = only(attribute([beside([0.030], 0.030)], book(op.TOKEN, work(read=100e6)), EXACT, None), op.TOKEN)
    assert values(found) == pytest.approx({COMPUTE: 0, BANDWIDTH: 0.010, "residual": 0.020})
    assert (found.loop, found.fixed, found.contention) == (None, None, None)
    assert found.verdict.cause == INCONCLUSIVE
    assert found.verdict.experiment and "turnscope calibrate" in found.verdict.experiment


def test_without_ceilings_nothing_of_the_floor_is_invented():
    found = only(attribute([beside([0.030], 0.0)], book(op.TOKEN, work(read=100e6)), {}, None), op.TOKEN)
    assert values(found) == pytest.approx({CONTENTION: 0, "residual": 0.030})
    assert found.unknown[BANDWIDTH] == f"No ceiling is known for: {READ}."
    assert found.verdict.experiment and "turnscope machine --again" in found.verdict.experiment


def test_operations_that_do_not_tell_their_units_stay_in_the_residual():
    decode = work(read=100e6, read_per={op.KV_BYTES: 1})
    told = turn_of(op.TOKEN, [0.010] * 3, [{op.KV_BYTES: 0.0}] * 3)
    told.add(Stage.LLM_DECODE, 30 * MS, 50 * MS)
    found = only(attribute([told], book(op.TOKEN, decode), EXACT, None), op.TOKEN)
    assert (found.untold, found.count) == (1, 4)
    assert found.bandwidth and found.bandwidth.value == pytest.approx(0.030)
    assert found.residual.value == pytest.approx(0.020)


def test_a_stage_that_is_faster_than_its_floor_gets_no_verdict():
    turn = turn_of(op.TOKEN, [0.004] * 5, [{}] * 5)
    found = only(attribute([turn], book(op.TOKEN, work(read=100e6)), EXACT, None), op.TOKEN)
    assert found.verdict.cause == INCONCLUSIVE
    assert found.verdict.sentence.startswith("Impossible: at the measured ceilings its work takes 250 %")


def test_every_stage_and_every_turn_sums_exactly_and_bounds_hold_the_value():
    world = World.of(5)
    planted = bandwidth_bound(world)
    turns = [world.turn(planted) for _ in range(3)]
    run = Attributor(turns, book(op.TOKEN, planted.work), world.ceilings(), world.calibration(planted))
    of_turns = [only(run.turn(number), op.TOKEN) for number in range(3)]
    whole = only(run.run(), op.TOKEN)
    for found in (*of_turns, whole):
        assert sum(share.value for share in found.shares.values()) == pytest.approx(found.seconds, abs=1e-12)
        assert all(share.low <= share.value <= share.high for share in found.shares.values())
    assert sum(found.seconds for found in of_turns) == pytest.approx(whole.seconds)
    for name in whole.shares:
        assert sum(found.shares[name].value for found in of_turns) == pytest.approx(whole.shares[name].value)


def test_operations_drawn_in_groups_have_the_same_parts_as_drawn_one_by_one():
    world = World.of(6)
    planted = bandwidth_bound(world)
    run = Attributor(
        [world.turn(planted) for _ in range(10)],
        book(op.TOKEN, planted.work),
        world.ceilings(),
        world.calibration(planted),
    )
    one_by_one, grouped = run.of(run.tables[op.TOKEN]), run.of(run.tables[op.TOKEN], blocks=100)
    assert one_by_one and grouped
    for name, share in one_by_one.shares.items():
        assert grouped.shares[name].value == pytest.approx(share.value, abs=1e-9)
        assert grouped.shares[name].high - share.high == pytest.approx(0, abs=0.03 * one_by_one.seconds)


def test_the_same_seed_gives_the_same_figures():
    world = World.of(7)
    planted = bandwidth_bound(world)
    turn, ceilings, alone = world.turn(planted), world.ceilings(), world.calibration(planted)
    first, second = (attribute([turn], book(op.TOKEN, planted.work), ceilings, alone, seed=4) for _ in range(2))
    assert first == second


def test_any_turns_that_a_timeline_can_hold_are_split_and_sum_exactly():
    rng = random.Random(2)
    turns = [random_turn(rng, index) for index in range(150)]
    decode = work(read=100e6, read_per={op.KV_BYTES: 1})
    passes = work(flops_per={op.PASSES: 1e6}, steps=Linear(per={op.PASSES: 1}))
    work_book = WorkBook(operations={op.TOKEN: decode, op.ASR_STEP: passes, op.PATCH: work(flops=1e6)})
    alone = calibration(samples(op.TOKEN, {0.0: 0.012, 1e6: 0.013}, op.KV_BYTES, 4))
    run = Attributor(turns, work_book, EXACT, alone)
    found = [*run.run(), *(each for number in range(len(turns)) for each in run.turn(number))]
    for each in found:
        assert sum(share.value for share in each.shares.values()) == pytest.approx(each.seconds, abs=1e-9)
        assert each.verdict.conclusive or each.verdict.experiment or each.seconds == 0 or each.unknown
    for changed in elasticities(run, turns):
        assert changed.saved_ms is None or changed.saved_ms.low <= changed.saved_ms.value <= changed.saved_ms.high
    figures(run)
    loop_verdicts(run)


def test_a_run_without_turns_has_no_stages():
    assert attribute([], WorkBook(), {}, None) == []
