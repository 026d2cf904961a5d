"""The laws of small models on planted times: full-size stages predicted from few layers, machines that drift, turns."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.experiments.full_size import gguf_file, small_models
from agent.experiments.full_size.comparison import SmallLaws
from agent.experiments.full_size.demands import HEAD, LAYERS, Demand, TokenDemands, of_pass, of_patch
from agent.experiments.full_size.effort import ON_CPU, QUICK
from agent.experiments.full_size.samples import Row, Sample, rows
from agent.experiments.full_size.shapes import FULL_SIZE, GemmaShape
from agent.experiments.workload.laws import LlmLaw
from profiling.machine import Ceiling
from profiling.roofline import Term
from profiling.workload import Work
from tests.experiments import tiny

READ, FLOAT32 = 20e9, 100e9
FIXED_S, KERNELS = 0.004, 3.0  # the planted law: so many seconds, and so many times slower than the ceilings


def ceilings(slower: float = 1.0) -> dict[str, Ceiling]:
    return {
        "read": Ceiling("read bandwidth", "B/s", "cpu", 1, (READ / slower,)),
        "float32": Ceiling("float32 matrix product", "FLOP/s", "cpu", 1, (FLOAT32 / slower,)),
    }


def term(layers: float) -> Term:
    return Term(Work(1e8 * layers, 1e9 * layers), "float32")


def planted(demand: Demand, seed: int, slower: float = 1.0) -> tuple[float, ...]:
    """Times by the planted law, with a spread of 2 % and one in eight disturbed."""
    at_ceilings = demand.ceiling_s({"read": READ, "float32": FLOAT32})
    noise = np.random.default_rng(seed).normal(1, 0.02, 8)
    noise[0] *= 3
    return tuple(float(one) for one in demand.times * (FIXED_S + KERNELS * at_ceilings) * slower * noise)


def sample(part: str | None, demands: Iterable[Demand], times_s: tuple[float, ...], stage: str = "pass") -> Sample:
    asked = tuple(demands)
    terms = tuple(one * demand.times for demand in asked for one in demand.terms.values())
    return Sample("asr", stage, part, times_s, terms, demands=asked)


def a_pass(layers: float, seed: int, slower: float = 1.0, extra: Mapping[str, float] = {}) -> list[Sample]:
    demands = of_pass(320, {"encoder": term(layers), "decoder": term(0.5 * layers)})
    times = {part: planted(demand, seed, slower) for part, demand in demands.items()}
    times = {part: tuple(one + extra.get(part, 0.0) for one in those) for part, those in times.items()}
    whole = tuple(map(sum, zip(*times.values(), strict=True)))
    return [
        sample(None, demands.values(), whole),
        *(sample(part, [demands[part]], times[part]) for part in demands),
    ]


def fitted(cache_bytes: int = 32_000_000) -> SmallLaws:
    laws = SmallLaws(cache_bytes)
    laws.fit([one for layers in (1, 2) for one in a_pass(layers, layers)], ceilings())
    return laws


def compared(laws: SmallLaws, samples: list[Sample], slower: float = 1.0, *, alone: bool = True) -> list[Row]:
    now = ceilings(slower)
    return laws.compare(rows(samples, now), now, alone=alone)


def test_a_planted_law_is_recovered_at_full_size_for_stage_and_parts() -> None:
    for row in compared(fitted(), a_pass(24, 7)):
        assert row.compared is not None and row.compared.holds and row.reasons == ()
        assert row.ratio is not None and row.ratio > 3  # beside it, what the ceilings allow


def test_a_machine_that_became_slower_is_allowed_for() -> None:
    assert all(row.compared and row.compared.holds for row in compared(fitted(), a_pass(24, 7, slower=1.4), 1.4))
    still = compared(fitted(), a_pass(24, 7), 1.4)[0]
    assert still.compared is not None and still.compared.ratio == pytest.approx(1 / 1.4, rel=0.1)
    assert "the machine became 40 % slower between the two by its ceilings, which the law allows for" in still.reasons


def test_what_a_part_takes_more_is_named() -> None:
    whole, encoder, decoder = compared(fitted(), a_pass(24, 7, extra={"encoder": 0.5}))
    assert whole.reasons[0].startswith("encoder is +") and encoder.reasons and not decoder.reasons


def test_small_models_in_the_cache_are_named() -> None:
    laws = fitted(cache_bytes=500_000_000)
    whole = compared(laws, a_pass(24, 7, extra={"encoder": 2.0}))[0]
    assert any("200 MB fit the last-level cache of 500 MB" in reason for reason in whole.reasons)


def test_a_turn_is_predicted_pass_by_pass_and_compared_with_what_held_alone() -> None:
    laws = fitted()
    compared(laws, a_pass(24, 7))
    demands = of_pass(320, {"encoder": term(24), "decoder": term(12)}, times=4).values()
    alone_s = sum(
        demand.times * (FIXED_S + KERNELS * demand.ceiling_s({"read": READ, "float32": FLOAT32})) for demand in demands
    )
    (row,) = compared(laws, [sample(None, demands, (alone_s,), "asr.finalize")], alone=False)
    assert row.compared is not None and row.compared.holds
    (busy,) = compared(laws, [sample(None, demands, (1.5 * alone_s,), "asr.finalize")], alone=False)
    assert busy.reasons[0].startswith("alone at full size it held (") and "slower" in busy.reasons[0]


def test_a_law_that_is_not_there_predicts_nothing() -> None:
    other = of_pass(80, {"encoder": term(24)}).values()
    (row,) = compared(fitted(), [sample(None, other, (0.1,))])
    assert row.compared is None and row.as_json()["small_models"] is None


def test_diffusion_has_a_cost_by_layer_and_one_by_forward() -> None:
    def diffusion(layers: int, forwards: int) -> Sample:
        (demand,) = of_patch({"diffusion": term(layers * forwards)}, forwards).values()
        time_s = 0.001 + forwards * (0.003 + 0.01 * layers)
        return replace(sample("diffusion", [demand], (time_s, 1.01 * time_s, 0.99 * time_s)), engine="tts")

    laws = SmallLaws(0)
    laws.fit([diffusion(layers, forwards) for layers in (1, 2) for forwards in (9, 3)], ceilings())
    assert all(row.compared and row.compared.holds for row in compared(laws, [diffusion(12, 9), diffusion(12, 3)]))


def test_the_small_models_are_as_wide_and_much_smaller() -> None:
    for small in small_models.of_recogniser(FULL_SIZE.asr):
        assert replace(small, layers=FULL_SIZE.asr.layers) == FULL_SIZE.asr
    narrow, longer, wordy = small_models.of_language_model(FULL_SIZE.llm)
    assert [sum(not local for local in one.local) for one in (narrow, longer, wordy)] == [1, 1, 1]
    assert (narrow.layers, longer.layers, wordy.layers, wordy.vocabulary) == (2, 3, 2, 32_768)
    assert sum(map(gguf_file.size_bytes, (narrow, longer, wordy))) < 1e9
    for small in small_models.of_voice(FULL_SIZE.tts):
        assert (small.width, small.local_width) == (FULL_SIZE.tts.width, FULL_SIZE.tts.local_width)
        assert small.layers <= 2 and small.vae_decoder_width < FULL_SIZE.tts.vae_decoder_width


def test_the_head_is_a_term_of_its_own(tmp_path: Path) -> None:
    def demand(shape: GemmaShape) -> Demand:
        path = tmp_path / f"{shape.layers}-{shape.vocabulary}.gguf"
        gguf_file.write(path, shape)
        law = LlmLaw(path, 128)
        whole, found = law.token(1000), TokenDemands(law).token(1000)
        assert sum(one.work.bytes for one in found.terms.values()) == pytest.approx(whole.work.bytes)
        assert sum(one.work.flops for one in found.terms.values()) == pytest.approx(whole.work.flops)
        return found

    few, more = demand(tiny.LLM), demand(replace(tiny.LLM, vocabulary=4000))
    assert few.terms[LAYERS] == more.terms[LAYERS]
    assert more.terms[HEAD].work.bytes == pytest.approx(4000 * tiny.LLM.width * 18 / 32)


def test_the_effort_is_short_and_covers_what_the_big_ones_are_asked() -> None:
    for effort in (ON_CPU, QUICK):
        short = small_models.short(effort)
        assert (short.asr_chunks_ms, short.tts_steps) == (effort.asr_chunks_ms, effort.tts_steps)
        assert short.tts_checked == 0
    assert list(small_models.there_and_back([1, 2, 3])) == [1, 2, 3, 2, 1]
