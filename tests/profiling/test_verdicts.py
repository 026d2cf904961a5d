"""Ground truth: the verdicts on simulated stages, under the noise of a real machine."""

from collections import Counter

import pytest

from profiling.bottleneck import Attribution, attribute
from profiling.interval import Interval
from profiling.verdict import (
    BANDWIDTH,
    COMPUTE,
    CONTENTION,
    FIXED,
    INCONCLUSIVE,
    PATCH_LOOP,
    RESIDUAL,
    STEP_OVERHEAD,
    experiment,
    verdict,
)
from tests.profiling import simulated
from tests.profiling.simulated import Kind, World, book

SEEDS = 200


def explained(kind: Kind, seed: int) -> Attribution:
    world = World.of(seed)
    planted = kind(world)
    calibration, turn = world.calibration(planted), world.turn(planted)
    found = attribute([turn], book(planted.operation, planted.work), world.ceilings(), calibration, seed=seed)
    return next(each for each in found if each.operation == planted.operation)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (simulated.bandwidth_bound, BANDWIDTH),
        (simulated.compute_bound, COMPUTE),
        (simulated.serial_steps, PATCH_LOOP),
        (simulated.loop_overhead, STEP_OVERHEAD),
        (simulated.steps_with_a_fixed_part, FIXED),
        (simulated.fixed_cost, FIXED),
        (simulated.contended, CONTENTION),
        (simulated.beside_other_work_yet_not_slowed, BANDWIDTH),
    ],
)
def test_the_right_verdict_in_at_least_95_percent_wrong_in_at_most_1(kind: Kind, cause: str):
    causes = Counter(explained(kind, seed).verdict.cause for seed in range(SEEDS))
    wrong = SEEDS - causes[cause] - causes[INCONCLUSIVE]
    assert causes[cause] >= 0.95 * SEEDS, causes
    assert wrong <= 0.01 * SEEDS, causes


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        (simulated.as_much_reading_as_steps, {BANDWIDTH, STEP_OVERHEAD}),
        (simulated.as_much_fixed_as_steps, {FIXED, PATCH_LOOP}),
        (simulated.as_much_arithmetic_as_reading, {COMPUTE, BANDWIDTH}),
    ],
)
def test_an_ambiguous_stage_is_inconclusive_in_at_least_95_percent(kind: Kind, pair: set[str]):
    verdicts = [explained(kind, seed).verdict for seed in range(SEEDS)]
    unsettled = [each for each in verdicts if not each.conclusive]
    assert len(unsettled) >= 0.95 * SEEDS
    assert all(each.experiment and "`turnscope " in each.experiment for each in unsettled)
    named = Counter(each.experiment for each in unsettled)
    assert named.most_common(1)[0][0] == experiment("tts.patch" if PATCH_LOOP in pair else "llm.token", *sorted(pair))


def test_a_largest_share_that_is_not_far_ahead_is_never_called_wrong_in_more_than_1_percent():
    """Mixtures of reading and steps, from clear to a tie."""

    def mixture(world: World) -> simulated.Planted:
        planted = simulated.as_much_reading_as_steps(world)
        world_share = world.random.uniform(0.6, 1.6)
        return simulated.Planted(
            planted.operation, planted.work, planted.per_step_s * world_share, 0, planted.calibrated, planted.run
        )

    wrong = 0
    for seed in range(SEEDS):
        world = World.of(seed)
        planted = mixture(world)
        floor_s = sum(planted.parts_s(units, world.now)[0] for units in planted.run)
        then_s = sum(planted.parts_s(units, world.then)[0] for units in planted.run)
        steps_s = planted.per_step_s * len(planted.run) + world.slowness * then_s
        truth = BANDWIDTH if floor_s > steps_s else STEP_OVERHEAD
        wrong += explained(mixture, seed).verdict.cause not in (truth, INCONCLUSIVE)
    assert wrong <= 0.01 * SEEDS


def between(value: float, low: float, high: float) -> Interval:
    return Interval(value=value, low=low, high=high, n=10)


def test_a_share_wins_only_when_its_lower_bound_beats_every_upper_bound():
    shares = {COMPUTE: between(0.5, 0.41, 0.6), BANDWIDTH: between(0.3, 0.2, 0.4), RESIDUAL: between(0.2, 0.1, 0.3)}
    assert verdict("llm.token", 1, shares, {}, 1.0).cause == COMPUTE
    shares[BANDWIDTH] = between(0.3, 0.2, 0.42)
    found = verdict("llm.token", 1, shares, {}, 1.0)
    assert found.cause == INCONCLUSIVE
    assert found.sentence == "Compute (50 %) and bandwidth (30 %) cannot be told apart."
    assert found.experiment and "`turnscope machine --again`" in found.experiment
    shares[BANDWIDTH] = between(0.2, 0.1, 0.3)
    shares[FIXED] = between(0.1, 0.0, 0.45)
    assert verdict("llm.token", 1, shares, {}, 1.0).cause == INCONCLUSIVE


def test_a_share_that_is_not_the_largest_in_nearly_all_draws_does_not_win():
    shares = {COMPUTE: between(0.6, 0.5, 0.7), BANDWIDTH: between(0.3, 0.2, 0.4), RESIDUAL: between(0.1, 0.0, 0.2)}
    assert verdict("llm.token", 1, shares, {}, 0.98).cause == INCONCLUSIVE


def test_time_that_no_part_explains_is_inconclusive_and_names_the_study():
    shares = {BANDWIDTH: between(0.3, 0.29, 0.31), RESIDUAL: between(0.7, 0.6, 0.8)}
    for operation, study in (("llm.token", "decode-gap"), ("llm.prefill", "prefill"), ("tts.patch", "patch")):
        found = verdict(operation, 1, shares, {}, 1.0)
        assert found.cause == INCONCLUSIVE and found.experiment
        assert f"`turnscope study {study}`" in found.experiment


def test_a_stage_faster_than_its_floor_doubts_the_ceilings():
    shares = {BANDWIDTH: between(1.6, 1.5, 1.7), RESIDUAL: between(-0.6, -0.7, -0.5)}
    assert verdict("llm.token", 1, shares, {}, 1.0).cause == INCONCLUSIVE


@pytest.mark.parametrize(
    ("operation", "largest", "runner_up", "names"),
    [
        ("llm.token", COMPUTE, BANDWIDTH, "turnscope machine --again"),
        ("tts.patch", PATCH_LOOP, FIXED, "turnscope study fixed-cost"),
        ("tts.first_patch", PATCH_LOOP, BANDWIDTH, "turnscope study patch"),
        ("llm.token", BANDWIDTH, STEP_OVERHEAD, "turnscope study decode-gap"),
        ("asr.step", FIXED, COMPUTE, "turnscope study finalisation"),
        ("llm.prefill", FIXED, COMPUTE, "turnscope study prefill"),
        ("llm.token", CONTENTION, BANDWIDTH, "turnscope calibrate"),
    ],
)
def test_the_experiment_fits_the_two_that_cannot_be_told_apart(operation, largest, runner_up, names):
    assert names in experiment(operation, largest, runner_up)
    assert experiment(operation, largest, runner_up) == experiment(operation, runner_up, largest)
