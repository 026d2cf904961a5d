"""Predictions without a run, beyond the published figures."""

import pytest

from profiling import catalogue, predict
from profiling.answers import Answer, NotPredictable, Rates
from profiling.answers_llm import Load, Writing, of_language_model
from profiling.answers_sound import Speaking, of_recogniser, of_voice
from profiling.catalogue import LanguageModel, Recogniser, UnknownName, Voice

DENSE = Writing(weights=10.0, held=10.0, active=4.0, computed=3.0, bits=20.0)


def of_llm(writing: Writing, rates: Rates, load: Load) -> dict[str, Answer]:
    return {each.what: each for each in of_language_model(writing, rates, load)}


def test_names_are_found_whatever_their_case_and_unknown_ones_refused_with_the_list() -> None:
    assert catalogue.machine("RTX5090") is catalogue.MACHINES["rtx5090"]
    with pytest.raises(
        UnknownName, match=r"no machine 'rtx509'. Did you mean rtx5090\? There are rtx5090, .*xeon-core"
    ):
        catalogue.machine("rtx509")
    with pytest.raises(UnknownName, match=r"no model 'gpt'. There are dense-8b, .*nemotron"):
        catalogue.model("gpt")


def test_every_entry_has_a_source_and_a_known_format() -> None:
    assert all(machine.source and machine.what for machine in catalogue.MACHINES.values())
    for model in catalogue.MODELS.values():
        assert model.source and model.what
        if isinstance(model, LanguageModel):
            assert Writing.of(model, model.format).weights > 0


def test_the_kv_cache_of_a_sliding_window() -> None:
    """The 12B model: min(context, 1024) x 327,680 + context x 16,384 bytes."""
    model = catalogue.model("gemma-4-12b")
    assert isinstance(model, LanguageModel)
    assert model.kv_bytes(100) == 100 * (327_680 + 16_384)
    assert model.kv_bytes(5000) == 1024 * 327_680 + 5000 * 16_384


def test_a_mixture_of_experts_reads_its_active_and_holds_all_parameters() -> None:
    model = catalogue.model("moe-30b")
    assert isinstance(model, LanguageModel)
    writing = Writing.of(model, "Q8_0")
    assert (writing.weights, writing.held) == pytest.approx((3.3e9 * 8.5 / 8, 30e9 * 8.5 / 8))
    assert "batch from which arithmetic decides" not in of_llm(writing, Rates(1e9, 1e12), Load())


def test_the_context_slows_decoding() -> None:
    long = Writing(weights=10.0, kv=10.0)
    assert of_llm(long, Rates(100.0), Load())["decode, at most"].value == 5


def test_in_a_batch_weights_are_read_once_until_arithmetic_decides() -> None:
    def total(batch: int) -> float:
        return of_llm(DENSE, Rates(10.0, 80.0), Load(batch=batch))[f"{batch} requests together, at most"].value

    assert [total(batch) for batch in (2, 10, 20)] == pytest.approx([2, 10, 10])
    found = of_llm(DENSE, Rates(10.0, 80.0), Load(batch=20))
    assert found["speed that each keeps, at most"].value == pytest.approx(0.5)


def test_without_a_bandwidth_there_is_no_speed() -> None:
    with pytest.raises(NotPredictable, match="--bandwidth"):
        of_llm(DENSE, Rates(), Load())


def test_a_speed_above_the_ceiling_is_impossible_and_nothing_follows_from_it() -> None:
    found = of_llm(DENSE, Rates(100.0), Load(speed=20, thinking=80))
    assert "wrong token count" in found["share of the ceiling"].impossible
    assert found["wait for 80 thinking tokens, at least"].value == 8
    assert "of a token, no weight reads" not in found


def test_requests_that_are_faster_together_than_alone_are_impossible() -> None:
    found = of_llm(DENSE, Rates(100.0), Load(batch=2, speed=5, total_speed=11))
    assert found["speed that each keeps, as measured"].impossible


def voice_answers(rates: Rates, asked: Speaking) -> dict[str, Answer]:
    model = catalogue.model("voxcpm2")
    assert isinstance(model, Voice)
    return {each.what.partition(":")[0]: each for each in of_voice(model, rates, asked)}


def test_other_diffusion_steps_give_a_range() -> None:
    fewer = voice_answers(Rates(), Speaking(diffusion_steps=4))["one patch"]
    assert (fewer.value, fewer.to) == pytest.approx((0.076 * 3 / 9, 0.076))
    more = voice_answers(Rates(), Speaking(diffusion_steps=20))["one patch"]
    assert more.to is not None and more.value == pytest.approx(0.076) and more.to > 0.076
    with pytest.raises(NotPredictable, match="only noise"):
        voice_answers(Rates(), Speaking(diffusion_steps=1))


def test_passes_through_the_diffusion_module() -> None:
    assert [predict.diffusion_forwards(steps) for steps in (1, 2, 4, 6, 10, 50)] == [0, 1, 3, 5, 9, 48]


def test_the_floor_of_a_patch_on_a_machine() -> None:
    """8.16 GB at 905 GB/s: 9.0 ms; 6.46 and 5.61 GB with 6 and 4 steps."""
    for steps, gigabytes in ((10, 8.16), (6, 6.46), (4, 5.61)):
        found = voice_answers(Rates(905e9), Speaking(diffusion_steps=steps))
        assert found["one patch, at least"].value * 905 == pytest.approx(gigabytes, abs=0.005)


def test_measured_times_take_the_place_of_those_published() -> None:
    found = voice_answers(Rates(), Speaking(fixed_s=0.1, patch_s=0.2))
    assert found["first audio, streamed"].value == pytest.approx(0.3)
    assert not predict.is_gap_free(found["slope"].value)


def test_small_chunks_are_bound_by_bandwidth_and_large_ones_on_a_slow_processor_by_arithmetic() -> None:
    model = catalogue.model("nemotron")
    assert isinstance(model, Recogniser)
    found = list(of_recogniser(model, Rates(25.7e9, 136.8e9), None, "F32"))
    laws = [each.law for each in found if "compute" in each.what]
    assert laws[0].startswith("weights / bandwidth") and laws[-1].startswith("2 P frames / peak")
    with pytest.raises(NotPredictable, match="80, 160, 320, 560, 1120 ms"):
        list(of_recogniser(model, Rates(), 0.3, "F32"))


def test_streams_from_a_throughput() -> None:
    assert predict.most_streams(2484, 180.4) == 13
    assert predict.most_streams(0.3, 0.1) == 3
