"""The language model of a study, opened as its settings say, and streams of it."""

from pathlib import Path
from typing import Any

from agent import devices
from agent.experiments.studies.llm_file import decode_threads
from agent.experiments.studies.streams import Streams
from agent.experiments.studies.study import Bench
from agent.llm.gguf import GgufModel


def opened_model(bench: Bench, path: Path) -> GgufModel:
    """Raises TurnscopeError where it cannot be loaded."""
    return GgufModel(path, gpu_layers=bench.settings.llm.gpu_layers, main_gpu=devices.number(bench.settings.device))


def opened_streams(
    bench: Bench, model: GgufModel, count: int, tokens: int, *, prompt_tokens: int, callback: Any = None
) -> Streams:
    """With the decode threads; flash attention, unless the settings say, on GPUs alone. Else as `Streams`."""
    wanted = bench.settings.llm.flash_attention
    return Streams(
        model,
        count,
        tokens,
        threads=decode_threads(bench),
        prompt_tokens=prompt_tokens,
        flash_attention=model.gpu_layers != 0 if wanted is None else wanted,
        callback=callback,
    )
