"""Which model and which engine a run uses for each stage, from what the settings name."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from agent import devices, models
from agent.asr.nemotron_choices import right_context
from agent.errors import TurnscopeError
from agent.llm.http_address import looks_like_address, split_address
from agent.settings import Settings

VAD_MODEL, SMART_TURN_MODEL = "silero-vad", "smart-turn-v3.2"
ENGINE_SETS = {
    "cpu": {"asr": "moonshine-base-en", "llm": "smollm2-135m", "tts": "piper-en-us-joe"},
    "gpu": {"asr": "nemotron", "llm": "gemma-4-12b", "tts": "voxcpm2"},
}
PACKAGES = {"nemotron": ("nemo", "torch"), "voxcpm": ("voxcpm", "torch")}  # beyond those of the default set-up

MOONSHINE_CHUNKS_MS = range(80, 1121)

AsrKind = Literal["moonshine", "nemotron"]
LlmKind = Literal["llama", "http"]
TtsKind = Literal["piper", "voxcpm"]
Kind = AsrKind | LlmKind | TtsKind

_OF_ANY_LLM = frozenset(
    ("model", "thinking_tokens", "max_tokens", "context_tokens", "temperature", "seed", "system_prompt")
)
# The settings of its section that an engine, or the pipeline for it, makes something of.
TAKES: Mapping[Kind, frozenset[str]] = {
    "moonshine": frozenset(("model", "chunk_ms", "language", "threads")),
    "nemotron": frozenset(("model", "chunk_ms", "language", "threads", "flush", "mode")),
    "llama": _OF_ANY_LLM
    | {"threads", "prefill_threads", "gpu_layers", "flash_attention", "batch_tokens", "micro_batch_tokens", "swa_full"}
    | {"draft", "draft_tokens"},
    "http": _OF_ANY_LLM | {"server_model", "api_key"},
    "piper": frozenset(("model", "threads", "phonemizer")),
    "voxcpm": frozenset(("model", "threads", "voice", "reference_wav", "prompt_wav", "prompt_text"))
    | {"diffusion_steps", "guidance", "seed", "max_patches", "normalize", "compiled"},
}

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Choice:
    """The engine of each stage, its model's name, and the model's file, folder or URL where the user gave one."""

    asr: AsrKind
    llm: LlmKind
    tts: TtsKind
    asr_path: Path | None
    llm_path: Path | None
    tts_path: Path | None


@dataclass(frozen=True)
class Places:
    """Where the engine of each stage computes: cpu, cuda, cuda:N, or gpu for one of another make; None for a server."""

    asr: str
    llm: str | None
    tts: str


def with_models(settings: Settings) -> Settings:
    """The same settings with a model for every stage and the device on which they run. What counts as given
    (`model_fields_set`) stays what the user gave.

    `auto` engines are the big ones where a CUDA device, all three models and a llama.cpp that can use the device are,
    else those of the default set-up. Raises TurnscopeError for a device that is not there.
    """
    device = devices.resolve(settings.device)
    engines = settings.engines
    if engines == "auto":
        big = device != devices.CPU and big_models_are_here() and (settings.llm.model is not None or llama_offloads())
        engines = "gpu" if big else "cpu"
    names = ENGINE_SETS[engines]
    keeps_off_gpus = settings.device == devices.CPU and settings.llm.gpu_layers is None
    return _filled(
        settings,
        engines=engines,
        device=device,
        asr=_filled(settings.asr, model=settings.asr.model or names["asr"]),
        llm=_filled(
            settings.llm,
            model=settings.llm.model or names["llm"],
            gpu_layers=0 if keeps_off_gpus else settings.llm.gpu_layers,
        ),
        tts=_filled(settings.tts, model=settings.tts.model or names["tts"]),
    )


def _filled(section: M, **values: Any) -> M:
    return type(section).model_construct(set(section.model_fields_set), **(dict(section) | values))


def choose(settings: Settings) -> Choice:
    """What the settings (with a model for every stage) name. Raises TurnscopeError for what no engine can run; of an
    address, its sentence shows nothing that may be secret."""
    asr, llm, tts = str(settings.asr.model), str(settings.llm.model), str(settings.tts.model)
    by_url = _is_address(llm)
    if by_url:
        split_address(llm)
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
    _require_chunk(choice.asr, settings.asr.chunk_ms)
    return choice


def places(settings: Settings) -> Places:
    """Where these settings (with a model for every stage) put the engines. Asks llama.cpp, if it is used."""
    choice = choose(settings)
    llm = None
    if choice.llm == "llama":
        gpu = "gpu" if settings.device == devices.CPU else settings.device
        llm = gpu if settings.llm.gpu_layers != 0 and llama_offloads() else devices.CPU
    return Places(
        asr=settings.device if choice.asr == "nemotron" else devices.CPU,
        llm=llm,
        tts=settings.device if choice.tts == "voxcpm" else devices.CPU,
    )


@cache
def llama_offloads() -> bool:
    """Whether the installed llama.cpp was built for GPUs and finds one. Loads the library, which takes a moment."""
    from agent.llm import gguf

    return gguf.offloads()


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
    if os.sep in model or Path(model).suffix in (".nemo", ".gguf") or os.path.lexists(model):
        return Path(model)
    what = {"asr": "recogniser", "llm": "language model", "tts": "voice"}[stage]
    raise TurnscopeError(f"There is no {what} {model!r}: choose {' or '.join(known)}, or give {else_give}.")


def _is_address(model: str) -> bool:
    """Of a server, well formed or not; what may be a file is none."""
    may_be_a_file = "://" not in model and (model.endswith(".gguf") or os.path.lexists(model))
    return looks_like_address(model) and not may_be_a_file


def _require_chunk(kind: AsrKind, chunk_ms: int) -> None:
    """Before the recogniser is imported, which takes NeMo seconds."""
    if kind == "nemotron":
        right_context(chunk_ms)
    elif chunk_ms not in MOONSHINE_CHUNKS_MS:
        raise TurnscopeError(
            f"The setting asr.chunk_ms is not valid: Moonshine takes from {MOONSHINE_CHUNKS_MS[0]} to "
            f"{MOONSHINE_CHUNKS_MS[-1]} ms (got {chunk_ms})."
        )


def _require_packages(kind: str) -> None:
    missing = [package for package in PACKAGES.get(kind, ()) if importlib.util.find_spec(package) is None]
    if missing:
        raise TurnscopeError(f"This needs {' and '.join(missing)}, which is not installed: run `make setup-gpu` first.")


def big_models_are_here() -> bool:
    here = {row.name for row in models.list_models() if row.present == "yes"}
    installed = all(importlib.util.find_spec(package) for needed in PACKAGES.values() for package in needed)
    return installed and set(ENGINE_SETS["gpu"].values()) <= here
