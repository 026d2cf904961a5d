"""Loads the engines that the settings name, each on a worker of its own, and warms them up."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agent import models
from agent.engines import Engines, Workers
from agent.errors import TurnscopeError
from agent.llm.history import new_history
from agent.settings import Settings
from agent.worker import ThreadWorker
from profiling.trace.clock import Clock

VAD_MODEL, SMART_TURN_MODEL = "silero-vad", "smart-turn-v3.2"
CHOICES: Mapping[str, tuple[str, ...]] = {"asr": ("moonshine-base-en",), "tts": ("piper-en-us-joe",)}


def needed_models(settings: Settings) -> list[str]:
    """The names of the stored models that these settings use. Raises TurnscopeError for one that no engine can run."""
    for stage, name in (("asr", settings.asr.model), ("tts", settings.tts.model)):
        if name not in CHOICES[stage]:
            raise TurnscopeError(f"There is no {stage.upper()} model {name!r}: choose {' or '.join(CHOICES[stage])}.")
    names = [VAD_MODEL, settings.asr.model, settings.tts.model]
    if settings.endpoint.asks_smart_turn:
        names.append(SMART_TURN_MODEL)
    if gguf_path(settings.llm.model) is None:
        language_models = [row.name for row in models.list_models() if row.stage == "llm"]
        if settings.llm.model not in language_models:
            raise TurnscopeError(
                f"There is no language model {settings.llm.model!r}: choose {' or '.join(language_models)}, or give "
                "the path of a GGUF file."
            )
        names.append(settings.llm.model)
    return names


def gguf_path(model: str) -> Path | None:
    """The GGUF file that an LLM setting names by path; None when it names a stored model."""
    return Path(model) if model.endswith(".gguf") or os.sep in model or Path(model).is_file() else None


def load_engines(settings: Settings, clock: Clock, tell: Callable[[str], None]) -> Engines:
    """Load and warm up everything; `tell` is called with what is being done.

    Raises TurnscopeError when a model is absent, damaged or of the wrong kind.
    """
    # The model libraries take a second to import, which commands that need no engine do not pay.
    from agent.asr.moonshine import MoonshineEngine
    from agent.listening.smart_turn import SmartTurn
    from agent.listening.vad import SileroVad
    from agent.llm.llama import LlamaEngine
    from agent.tts.piper import PiperEngine
    from agent.tts.speakable import speakable

    tell("loading the recogniser")
    vad = SileroVad(models.locate(VAD_MODEL) / "silero_vad.onnx")
    smart_turn = None
    if settings.endpoint.asks_smart_turn:
        smart_turn = SmartTurn(models.locate(SMART_TURN_MODEL) / "smart_turn.onnx")
    asr = MoonshineEngine(
        models.locate(settings.asr.model), name=settings.asr.model, threads=settings.asr.threads, clock=clock
    )
    tell("loading the language model")
    llm = LlamaEngine(
        gguf_path(settings.llm.model) or models.locate(settings.llm.model) / "model.gguf",
        name=None if gguf_path(settings.llm.model) else settings.llm.model,
        context_tokens=settings.llm.context_tokens,
        threads=settings.llm.threads,
        prefill_threads=settings.llm.threads,
        seed=settings.llm.seed,
        clock=clock,
    )
    tell("loading the voice")
    tts = PiperEngine(
        models.locate(settings.tts.model),
        name=settings.tts.model,
        threads=settings.tts.threads,
        phonemizer=settings.tts.phonemizer,
        clock=clock,
    )
    tell("warming up")
    asr.warm_up()
    llm.warm_up(new_history(settings.llm).opening())
    tts.warm_up()
    speakable("Warm 1 up.", settings.language)
    workers = Workers(*(ThreadWorker(name, clock) for name in ("asr", "smart-turn", "llm", "tts")))
    return Engines(vad, smart_turn, asr, llm, tts, workers)
