"""Which model and which engine a run uses for each stage, from what the settings name."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent import devices, models
from agent.asr.nemotron_choices import right_context
from agent.errors import TurnscopeError
from agent.settings import Settings

VAD_MODEL, SMART_TURN_MODEL = "silero-vad", "smart-turn-v3.2"
ENGINE_SETS = {
    "cpu": {"asr": "moonshine-base-en", "llm": "smollm2-135m", "tts": "piper-en-us-joe"},
    "gpu": {"asr": "nemotron", "llm": "gemma-4-12b", "tts": "voxcpm2"},
}
PACKAGES = {"nemotron": ("nemo", "torch"), "voxcpm": ("voxcpm", "torch")}  # beyond those of the default set-up

AsrKind = Literal["moonshine", "nemotron"]
LlmKind = Literal["llama", "http"]
TtsKind = Literal["piper", "voxcpm"]


@dataclass(frozen=True)
class Choice:
    """The engine of each stage, its model's name, and the model's file, folder or URL where the user gave one."""

    asr: AsrKind
    llm: LlmKind
    tts: TtsKind
    asr_path: Path | None
    llm_path: Path | None
    tts_path: Path | None


def with_models(settings: Settings) -> Settings:
    """The same settings with a model for every stage and the device on which they run.

    `auto` engines are the big ones where a CUDA device and all three models are, else those of the default set-up.
    Raises TurnscopeError for a device that is not there.
    """
    device = devices.resolve(settings.device)
    engines = settings.engines
    if engines == "auto":
        engines = "gpu" if device != devices.CPU and _big_models_are_here() else "cpu"
    names = ENGINE_SETS[engines]
    return settings.model_copy(
        update={
            "engines": engines,
            "device": device,
            "asr": settings.asr.model_copy(update={"model": settings.asr.model or names["asr"]}),
            "llm": settings.llm.model_copy(update={"model": settings.llm.model or names["llm"]}),
            "tts": settings.tts.model_copy(update={"model": settings.tts.model or names["tts"]}),
        }
    )


def choose(settings: Settings) -> Choice:
    """What the settings (with a model for every stage) name. Raises TurnscopeError for what no engine can run."""
    asr, llm, tts = str(settings.asr.model), str(settings.llm.model), str(settings.tts.model)
    by_url = llm.startswith(("http://", "https://"))
    asr_path = _path("asr", asr, "the path of a .nemo file")
    llm_path = None if by_url else _path("llm", llm, "the path of a GGUF file, or a server's URL (http://HOST:PORT/v1)")
    tts_path = _path("tts", tts, "the path of a folder with a VoxCPM2 checkpoint")
    choice = Choice(
        asr="nemotron" if asr_path or asr == ENGINE_SETS["gpu"]["asr"] else "moonshine",
        llm="http" if by_url else "llama",
        tts="voxcpm" if tts_path or tts == ENGINE_SETS["gpu"]["tts"] else "piper",
        asr_path=asr_path,
        llm_path=llm_path,
        tts_path=tts_path,
    )
    for kind in (choice.asr, choice.tts):
        _require_packages(kind)
    if choice.asr == "nemotron":
        right_context(settings.asr.chunk_ms)  # known before NeMo is imported, which takes seconds
    return choice


def needed_models(settings: Settings) -> list[str]:
    """The names of the stored models that these settings use."""
    choice = choose(settings)
    names = [VAD_MODEL]
    if settings.endpoint.asks_smart_turn:
        names.append(SMART_TURN_MODEL)
    stages = (
        (settings.asr.model, choice.asr_path is None),
        (settings.tts.model, choice.tts_path is None),
        (settings.llm.model, choice.llm == "llama" and choice.llm_path is None),
    )
    return names + [str(name) for name, stored in stages if stored]


def _path(stage: str, model: str, else_give: str) -> Path | None:
    """The path that a setting names; None for a known model. Raises TurnscopeError for what is neither."""
    known = [row.name for row in models.list_models() if row.stage == stage]
    if model in known:
        return None
    if os.sep in model or Path(model).suffix in (".nemo", ".gguf") or Path(model).exists():
        return Path(model)
    what = {"asr": "recogniser", "llm": "language model", "tts": "voice"}[stage]
    raise TurnscopeError(f"There is no {what} {model!r}: choose {' or '.join(known)}, or give {else_give}.")


def _require_packages(kind: str) -> None:
    missing = [package for package in PACKAGES.get(kind, ()) if importlib.util.find_spec(package) is None]
    if missing:
        raise TurnscopeError(f"This needs {' and '.join(missing)}, which is not installed: run `make setup-gpu` first.")


def _big_models_are_here() -> bool:
    here = {row.name for row in models.list_models() if row.present == "yes"}
    installed = all(importlib.util.find_spec(package) for needed in PACKAGES.values() for package in needed)
    return installed and set(ENGINE_SETS["gpu"].values()) <= here
