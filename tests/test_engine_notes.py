"""What is said of settings without effect and of a GPU that stays idle."""

import pytest

from agent import devices, engine_choice
from agent.cli.pipeline_options import notes
from agent.engine_choice import TAKES, with_models
from agent.settings import AsrSettings, LlmSettings, TtsSettings, load


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch):
    """Sets how many CUDA devices there are, whether llama.cpp can use them, and whether the big models are fetched."""

    def make(cuda: int, llama: bool = True, fetched: bool = True) -> None:
        monkeypatch.setattr(devices, "cuda_devices", lambda: cuda)
        monkeypatch.setattr(devices, "torch_knows_cuda", lambda: True)
        monkeypatch.setattr(engine_choice, "llama_offloads", lambda: llama)
        monkeypatch.setattr(engine_choice, "big_models_are_here", lambda: fetched)

    monkeypatch.setattr(engine_choice, "_require_packages", lambda kind: None)
    make(0)
    return make


def said(**flags: object) -> list[str]:
    return notes(with_models(load(flags=flags)))


def test_every_setting_is_used_by_some_engine_and_nothing_else_is() -> None:
    for section, kinds in (
        (AsrSettings, ("moonshine", "nemotron")),
        (LlmSettings, ("llama", "http")),
        (TtsSettings, ("piper", "voxcpm")),
    ):
        assert frozenset[str]().union(*(TAKES[kind] for kind in kinds)) == section.model_fields.keys()


def test_defaults_have_nothing_to_say() -> None:
    assert said() == said(engines="gpu") == said(device="cpu") == []


def test_flags_of_other_engines_are_named_in_one_sentence() -> None:
    given = {"asr": {"mode": "buffered", "flush": False}, "tts": {"voice": "old man", "diffusion_steps": 4}}
    assert said(**given) == [
        "Without effect on Moonshine: --no-asr-flush, --asr-mode; on Piper: --diffusion-steps, --voice."
    ]
    assert said(engines="gpu", **given) == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"llm": {"model": "http://127.0.0.1/v1", "draft": "d.gguf", "gpu_layers": 3, "swa_full": True}},
            "Without effect on a server: llm.gpu_layers, llm.swa_full, --draft.",
        ),
        ({"llm": {"server_model": "m", "api_key": "k"}}, "Without effect on llama.cpp: llm.server_model, llm.api_key."),
        ({"tts": {"model": "voxcpm2", "phonemizer": "espeak"}}, "Without effect on VoxCPM2: tts.phonemizer."),
    ],
)
def test_settings_without_a_flag_are_named_even_where_they_are_the_default(
    given: dict[str, object], sentence: str
) -> None:
    assert said(**given) == [sentence]


def test_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSCOPE_TTS__PROMPT_WAV", "a.wav")
    monkeypatch.setenv("TURNSCOPE_ASR__FLUSH", "true")
    assert said() == ["Without effect on Moonshine: --asr-flush; on Piper: tts.prompt_wav."]


ON_THE_CPU = "The language model runs on the CPU, for which llama.cpp was built: `make setup-gpu`, with "


@pytest.mark.parametrize(
    "given", [{"engines": "gpu"}, {"device": "cuda"}, {"llm": {"model": "gemma-4-12b"}}, {"device": "cuda:0"}]
)
def test_a_llama_cpp_for_the_cpu_is_told_where_a_gpu_was_asked_for(machine, given: dict[str, object]) -> None:
    machine(1, llama=False)
    (sentence,) = said(**given)
    assert sentence.startswith(ON_THE_CPU) and "nvcc" in sentence
    machine(1, llama=True)
    assert said(**given) == []


@pytest.mark.parametrize(
    "given",
    [
        {"engines": "cpu"},
        {"engines": "gpu", "device": "cpu"},
        {"engines": "gpu", "llm": {"gpu_layers": 0}},
        {"engines": "gpu", "llm": {"model": "http://127.0.0.1/v1"}},
    ],
)
def test_nothing_is_told_where_no_gpu_was_asked_for(machine, given: dict[str, object]) -> None:
    machine(1, llama=False)
    assert said(**given) == []


def test_that_the_big_models_are_not_the_default_for_want_of_a_build_is_told(machine) -> None:
    machine(1, llama=False)
    (sentence,) = said()
    assert sentence.startswith("The big models are not the default here, because llama.cpp was built for the CPU")
    machine(1, llama=False, fetched=False)
    assert said() == []
