"""The language model's file that studies open themselves, and the ceilings of the place where it is evaluated."""

from pathlib import Path

from agent import devices
from agent.engine_choice import choose
from agent.errors import TurnscopeError
from agent.experiments.studies.study import Bench
from agent.experiments.workload.book import LLM
from agent.models.chosen import llm_file
from agent.settings import Settings
from profiling.machine.probe import Prober, ProbeReading
from profiling.roofline import READ


def require_file(settings: Settings) -> Path:
    """Raises TurnscopeError where the model is a server's."""
    if choose(settings).llm == "http":
        raise TurnscopeError(
            f"This study opens the model's file, and {settings.llm.model} is a server: give a model's name or the path "
            "of a GGUF file with --llm."
        )
    return llm_file(settings)


def shown_name(settings: Settings) -> str:
    """The model's, or that of its file."""
    path = choose(settings).llm_path
    return str(settings.llm.model) if path is None else path.stem


def decode_threads(bench: Bench) -> int:
    return bench.book.threads[LLM]


def prober(bench: Bench) -> Prober:
    """With the decode threads, where the language model is. Raises TurnscopeError for a GPU whose memory only llama.cpp
    can read."""
    device = bench.book.devices[LLM]
    if device != devices.CPU and not device.startswith(devices.CUDA):
        raise TurnscopeError(
            "The memory of the GPU that llama.cpp has found cannot be measured without CUDA: choose --device cuda, or "
            "set llm.gpu_layers to 0."
        )
    return Prober(threads=decode_threads(bench), device=device)


def read_rates(reading: ProbeReading) -> list[float]:
    """Bytes per second."""
    return [value for rates in reading.rates if rates.name == READ for value in rates.values]
