"""Each symptom from turns, or from timed steps, in which its cause is planted; and none where it is not."""

import pytest

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.figures import Figures, figures
from profiling.studies.concurrency import Decoding, concurrency_finding
from profiling.symptoms import Symptom, batch_symptom, symptoms
from tests.profiling import simulated
from tests.profiling.simulated import Planted, World, bandwidth_bound, book, loop_overhead, work
from tests.profiling.simulated_runs import Pipeline, evidence, run

NEW, QUANTISED, HALF = "new machine, same speed", "quantised, but no faster", "half the estimate"
IDLE, PREFILL, BATCHES = "low utilisation, slow decode", "prefill fast, decode slow", "small batches off the law"
# 40 GB/s and 4.5 bits: 78 % of what the weights alone allow, and prompts not three times as fast as replies.
HEALTHY = {"flops": 300e9, "noise": 0.03}


def of(seed: int = 0, **values: float) -> Figures:
    """What the language model of ten simulated turns reached."""
    pipeline = Pipeline(**HEALTHY | values)  # type: ignore[arg-type]
    known = evidence(pipeline)
    return figures(Attributor(run(pipeline, 10, seed), known.work_book, known.ceilings, known.calibration))


def of_stage(kind: simulated.Kind, seed: int = 0) -> Figures:
    world = World.of(seed)
    planted = kind(world)
    calibration, ceilings = world.calibration(planted), world.ceilings()
    turn = world.turn(planted)
    return figures(Attributor([turn], book(planted.operation, planted.work), ceilings, calibration))


def arithmetic(world: World) -> Planted:
    """Decode that computes longer than it reads."""
    tokens = [{op.KV_BYTES: 5e6}] * 40
    return Planted(op.TOKEN, work(flops=2e9, read=100e6, read_per={op.KV_BYTES: 1}), 0.3e-3, 0, tokens, tokens)


def only(found: list[Symptom], name: str) -> Symptom:
    (one,) = [symptom for symptom in found if symptom.name == name]
    return one


def names(found: list[Symptom]) -> list[str]:
    return [symptom.name for symptom in found]


@pytest.mark.parametrize("seed", range(8))
def test_a_healthy_run_has_no_symptom_alone_or_beside_another(seed: int) -> None:
    assert symptoms(of(seed), of(seed + 100)) == []


def test_decode_that_waits_for_memory_while_arithmetic_idles() -> None:
    found = only(symptoms(of_stage(bandwidth_bound)), IDLE)
    assert "% of the arithmetic" in found.symptom and "bound by bandwidth" in found.cause
    assert found.advice == "Quantise deeper, and watch the use of the bandwidth, not the utilisation."


@pytest.mark.parametrize(("kind", "cause"), [(loop_overhead, "step overhead"), (arithmetic, "compute")])
def test_decode_that_waits_for_something_else_is_not_said_to_wait_for_memory(kind: simulated.Kind, cause: str) -> None:
    found = of_stage(kind)
    assert found.decode_cause == cause and IDLE not in names(symptoms(found))


def test_a_prompt_that_is_read_much_faster_than_the_reply_is_written() -> None:
    found = only(symptoms(of(flops=900e9)), PREFILL)
    assert "This is normal" in found.cause and "Speculative decoding" in found.advice
    assert PREFILL not in names(symptoms(of(flops=200e9)))


@pytest.mark.parametrize("seed", range(4))
def test_twice_the_arithmetic_and_the_same_memory(seed: int) -> None:
    before = of(seed)
    found = only(symptoms(of(seed + 100, flops=600e9), before), NEW)
    assert found.symptom == "Arithmetic is 2.0 times as fast as in the run before, and decoding has the same speed."
    assert "bandwidth is the same" in found.cause and "Compare bandwidths" in found.advice
    assert NEW not in names(symptoms(of(seed + 100, flops=600e9, bandwidth=80e9), before))
    assert NEW not in names(symptoms(before, of(seed + 100, flops=600e9)))


@pytest.mark.parametrize("seed", range(4))
def test_half_of_the_bytes_without_the_speed(seed: int) -> None:
    before = of(seed, bits=8.5)
    found = only(symptoms(of(seed + 100, token_fixed_s=0.0145), before), QUANTISED)
    assert "0.53 times the bytes, which promises 1.87 times the speed" in found.symptom
    assert "Unpacking the weights" in found.cause and "see whether the bound moved" in found.advice
    assert QUANTISED not in names(symptoms(of(seed + 100), before))


def test_fewer_bytes_of_cache_are_no_other_format_and_a_slower_memory_no_same_machine() -> None:
    long, short = of(kv_per_token=4e6), of(token_fixed_s=0.0145)
    assert short.bytes_per_token < 0.85 * long.bytes_per_token
    assert QUANTISED not in names(symptoms(short, long))
    assert QUANTISED not in names(symptoms(of(bandwidth=20e9), of(bits=8.5)))


def test_half_of_the_estimate_by_poor_use_by_a_long_context_and_by_both() -> None:
    poor = only(symptoms(of(token_fixed_s=0.02, noise=0)), HALF)
    assert "41 % of what its weights alone allow" in poor.symptom and "KV" not in poor.cause
    assert poor.advice.startswith("Expect 0.6 to 0.8 of the ceiling")
    long = only(symptoms(of(kv_per_token=5e6, noise=0)), HALF)
    assert long.cause == "The context is long: 36 % of the bytes of a token are KV cache."
    assert long.advice == "Shorten the context, or quantise the KV cache."
    both = only(symptoms(of(kv_per_token=5e6, token_fixed_s=0.02, noise=0)), HALF)
    assert "not all of it. The bandwidth is not well used" in both.cause
    assert HALF not in names(symptoms(of()))


# One core's products of 4096 x 4096 weights in the reference: seconds by the number of rows.
ONE_CORE = {1: 2.57e-3, 2: 10.65e-3, 8: 11.85e-3, 32: 18.36e-3, 128: 46.05e-3, 512: 125.61e-3}


def sentence(steps_s: dict[int, float]) -> str:
    """Of the study of several replies at once."""
    repeated = {streams: [0.98 * step_s, step_s, 1.03 * step_s] for streams, step_s in steps_s.items()}
    return concurrency_finding("m", Decoding(64 << 20, 1 << 24), repeated, [25e9], [1e11]).sentence


def test_the_study_of_concurrency_recognises_small_batches_off_the_law() -> None:
    told = sentence(ONE_CORE)
    assert (
        " Small batches off the law: 2 streams take 10.65 ms, where 1 takes 2.57 and 8 take 11.85. Another kernel "
        "computes batches from that size on, and it is slower for the small ones. Raise the batch" in told
    )
    found = batch_symptom(list(ONE_CORE.items()), "streams")
    assert found and found.symptom in told
    not_reached = {1: 0.01, 2: 0.03, 4: 0.0301, 8: 0.0302}
    assert BATCHES.capitalize() in sentence(not_reached)


@pytest.mark.parametrize("ridge", [0.5, 1, 3, 8, 100])
def test_steps_that_follow_the_law_are_not_off_it(ridge: float) -> None:
    assert "off the law" not in sentence({n: 0.01 * max(1, n / ridge) for n in (1, 2, 4, 8, 16, 32)})
    assert "off the law" not in sentence({n: 0.01 + 0.01 * n / ridge for n in (1, 2, 4, 8, 16, 32)})
