import numpy as np
import pytest

from profiling import operations as op
from profiling.calibration import Sample
from profiling.floors import ceiling_draws
from profiling.interval import Interval
from profiling.overhead import overhead
from profiling.work_book import Linear
from tests.profiling import simulated
from tests.profiling.simulated import RATE, READ, World, work

DRAWS = 201
EXACT = {READ: np.full(DRAWS, 10e9), RATE: np.full(DRAWS, 100e9)}
PASSES = work(read_per={op.PASSES: 10e6}, steps=Linear(per={op.PASSES: 1}))


def sampled(durations: dict[float, float], times: int = 3) -> list[Sample]:
    return [
        Sample(operation=op.ASR_STEP, duration_s=seconds, units={op.PASSES: passes})
        for passes, seconds in durations.items()
        for _ in range(times)
    ]


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_the_constant_and_the_cost_of_a_step_are_recovered_within_their_intervals():
    """A calibration of a stage with 40 ms and 3 ms for each step, the noise that of a real machine."""
    held = {"fixed": 0, "per step": 0}
    seeds = 200
    for seed in range(seeds):
        world = World.of(seed)
        planted = simulated.steps_with_a_fixed_part(world)
        calibration = world.calibration(planted)
        then = {rate.key: Interval.of_median(rate.values) for rate in calibration.ceilings}
        generator = np.random.default_rng(seed)
        found = overhead(
            planted.operation,
            calibration.samples,
            planted.work,
            ceiling_draws(then, DRAWS, generator),
            DRAWS,
            generator,
        )
        assert found is not None
        slow_s = world.slowness * planted.parts_s({op.PASSES: 1.0}, world.then)[0]
        for name, draws, truth in (
            ("fixed", found.fixed_s, 0.040),
            ("per step", found.per_step_s, 0.003 + slow_s),
        ):
            low, high = np.quantile(draws, [0.025, 0.975])
            held[name] += low <= truth <= high
    assert min(held.values()) >= 0.9 * seeds, held


def test_one_slow_measurement_moves_little():
    durations = {1.0: 0.024, 2.0: 0.028, 3.0: 0.032, 5.0: 0.040}
    samples = [*sampled(durations), Sample(operation=op.ASR_STEP, duration_s=0.3, units={op.PASSES: 3.0})]
    found = overhead(op.ASR_STEP, samples, PASSES, EXACT, DRAWS, random())
    assert found is not None
    assert (found.fixed_s[0], found.per_step_s[0]) == (pytest.approx(0.020, rel=0.01), pytest.approx(0.003, rel=0.01))


def test_neither_part_is_below_zero():
    found = overhead(op.ASR_STEP, sampled({1.0: 0.003, 2.0: 0.008, 3.0: 0.013}), PASSES, EXACT, DRAWS, random())
    assert found is not None
    assert found.fixed_s.max() == 0
    assert found.per_step_s[0] == pytest.approx(0.003, rel=1e-3)
    found = overhead(op.ASR_STEP, sampled({1.0: 0.030, 2.0: 0.025, 3.0: 0.020}), PASSES, EXACT, DRAWS, random())
    assert found is not None and found.per_step_s.max() == 0 and found.fixed_s[0] > 0.015


def test_operations_that_were_faster_than_the_floor_cost_nothing_above_it():
    found = overhead(op.ASR_STEP, sampled({1.0: 0.0005, 2.0: 0.001, 3.0: 0.0015}), PASSES, EXACT, DRAWS, random())
    assert found is not None
    assert (found.fixed_s[0], found.per_step_s[0]) == (0, 0)


@pytest.mark.parametrize("samples", [[], sampled({1.0: 0.02}, 2), sampled({1.0: 0.02, 2.0: 0.03}, 1)])
def test_too_few_measurements_tell_nothing(samples):
    assert overhead(op.ASR_STEP, samples, PASSES, EXACT, DRAWS, random()) is None


def test_without_a_ceiling_there_is_nothing_above_a_floor():
    assert overhead(op.ASR_STEP, sampled({1.0: 0.02, 2.0: 0.03}), PASSES, {}, DRAWS, random()) is None


def test_measurements_that_do_not_tell_their_units_are_passed_over():
    untold = [Sample(operation=op.ASR_STEP, duration_s=9.0) for _ in range(4)]
    samples = sampled({1.0: 0.024, 2.0: 0.028, 5.0: 0.040})
    with_them = overhead(op.ASR_STEP, [*samples, *untold], PASSES, EXACT, DRAWS, random())
    without = overhead(op.ASR_STEP, samples, PASSES, EXACT, DRAWS, random())
    assert with_them and without and with_them.fixed_s.tolist() == without.fixed_s.tolist()
