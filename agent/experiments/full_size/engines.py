"""The three engines: what to make for each, and how each is measured. Their libraries are imported when used."""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.experiments.full_size import small_models
from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.making import Recipe
from agent.experiments.full_size.packages import ASR, LLM, TTS
from agent.experiments.full_size.samples import Sample
from agent.experiments.full_size.settings import Placed
from agent.experiments.full_size.shapes import Shapes
from profiling.trace.clock import Clock


def recipes_of(engines: Collection[str], shapes: Shapes, sound: NDArray[np.float32]) -> dict[str, list[Recipe]]:
    """By engine: its model first, then the small ones, the smallest of them first."""
    recipes: dict[str, list[Recipe]] = {}
    if ASR in engines:
        from agent.experiments.full_size import nemotron_file

        recognisers = [shapes.asr, *small_models.of_recogniser(shapes.asr)]
        recipes[ASR] = [nemotron_file.recipe(shape, sound) for shape in recognisers]
    if LLM in engines:
        from agent.experiments.full_size import gguf_file

        language_models = [shapes.llm, *small_models.of_language_model(shapes.llm)]
        recipes[LLM] = [gguf_file.recipe(shape) for shape in language_models]
    if TTS in engines:
        from agent.experiments.full_size import voxcpm_folder

        recipes[TTS] = [voxcpm_folder.recipe(shape) for shape in (shapes.tts, *small_models.of_voice(shapes.tts))]
    return recipes


def model_path(engine: str, folder: Path) -> Path:
    """What is loaded of a made folder."""
    if engine == ASR:
        from agent.experiments.full_size import nemotron_file

        return folder / nemotron_file.FILE
    if engine == LLM:
        from agent.experiments.full_size import gguf_file

        return folder / gguf_file.FILE
    return folder


def measure(
    engine: str,
    folder: Path,
    placed: Placed,
    effort: Effort,
    sound: NDArray[np.float32],
    clock: Clock,
    tell: Callable[[str], None],
) -> list[Sample]:
    """Load a made model and measure its stages and parts."""
    path = model_path(engine, folder)
    if engine == ASR:
        from agent.experiments.full_size.measure_asr import measure_asr

        return measure_asr(path, placed, effort, sound, clock, tell)
    if engine == LLM:
        from agent.experiments.full_size.measure_llm import measure_llm

        return measure_llm(path, placed, effort, clock, tell)
    from agent.experiments.full_size.measure_tts import measure_tts

    return measure_tts(path, placed, effort, clock, tell)
