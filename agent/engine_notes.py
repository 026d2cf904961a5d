"""What a user may not expect of the engines that the settings choose: settings without effect, an idle GPU."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from agent import devices, engine_choice
from agent.engine_choice import TAKES, Kind, choose
from agent.settings import Settings

NAMES: Mapping[Kind, str] = {
    "moonshine": "Moonshine",
    "nemotron": "Nemotron",
    "llama": "llama.cpp",
    "http": "a server",
    "piper": "Piper",
    "voxcpm": "VoxCPM2",
}
_BUILD = "`make setup-gpu`, with CUDA's compiler nvcc on this machine, builds it for CUDA"


def unused(settings: Settings) -> dict[str, list[str]]:
    """The settings that were given although the engine of their stage makes nothing of them (`asr.flush`), by that
    engine's name in words."""
    choice = choose(settings)
    stages: Sequence[tuple[str, Kind, BaseModel]] = (
        ("asr", choice.asr, settings.asr),
        ("llm", choice.llm, settings.llm),
        ("tts", choice.tts, settings.tts),
    )
    return {
        NAMES[kind]: [f"{stage}.{name}" for name in type(section).model_fields if name in extra]
        for stage, kind, section in stages
        if (extra := section.model_fields_set - TAKES[kind])
    }


def about_the_gpu(settings: Settings) -> Iterator[str]:
    """A sentence where the language model stays on the CPU, or the big models are not used, because llama.cpp was
    built for the CPU, though there is a CUDA device and more was asked for."""
    if settings.device == devices.CPU or choose(settings).llm != "llama" or settings.llm.gpu_layers is not None:
        return
    given = settings.model_fields_set
    asked = settings.engines == "gpu" or "device" in given or "model" in settings.llm.model_fields_set
    would_be_asked = "engines" not in given and engine_choice.big_models_are_here()
    if not (asked or would_be_asked) or engine_choice.llama_offloads():
        return
    if asked:
        yield f"The language model runs on the CPU, for which llama.cpp was built: {_BUILD}."
    else:
        yield (
            f"The big models are not the default here, because llama.cpp was built for the CPU: {_BUILD}, and "
            "--engines gpu takes them as it is."
        )
