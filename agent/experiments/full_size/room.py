"""Whether disk and memory hold what is about to be made and loaded: asked before anything is started."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent import devices
from agent.errors import TurnscopeError
from agent.experiments.full_size.making import Recipe, find
from agent.experiments.full_size.packages import ASR, LLM, NAMES, TTS, TURN
from agent.user_cache import cache_folder

GB = 1e9
# Memory of an engine on a CPU, as multiples of its file: the most while it is loaded, and from then on. NeMo fills
# a model with random numbers before it reads its weights; llama.cpp lays Q4_0 out anew.
_WHILE_LOADING = {ASR: 2.2, LLM: 1.15, TTS: 1.35}
_LOADED = {ASR: 1.05, LLM: 1.15, TTS: 1.2}
_LIBRARIES_BYTES = 0.7e9  # PyTorch, NeMo and all that they import
_ON_GPU, _WORKSPACE_BYTES = 1.1, 1e9


def require_disk(recipes: Mapping[str, Sequence[Recipe]]) -> None:
    """`recipes` by engine. Raises TurnscopeError when those that were not made yet have no room."""
    wanted = {name: sum(r.disk_bytes for r in those if find(r) is None) for name, those in recipes.items()}
    needed, free = sum(wanted.values()), _free_disk_bytes()
    if needed > free:
        fitting = [name for name, size in wanted.items() if size <= free]
        raise TurnscopeError(
            f"The files take up to {_gb(needed)} in {cache_folder()}, where {_gb(free)} are free: free some, point "
            f"XDG_CACHE_HOME at a roomier disk{_or_only(fitting)}."
        )


def require_memory(phases: Sequence[str], sizes_bytes: Mapping[str, int], device: str) -> None:
    """`sizes_bytes` are those of the engines' files. Raises TurnscopeError when a phase would not fit."""
    shortages = {phase: shortage(phase, sizes_bytes, device) for phase in phases}
    largest = max(phases, key=lambda phase: memory_bytes(phase, sizes_bytes))
    if short := shortages[largest] or next(filter(None, shortages.values()), None):
        raise TurnscopeError(short.rstrip(".") + _or_only(phase for phase in phases if not shortages[phase]) + ".")


def shortage(phase: str, sizes_bytes: Mapping[str, int], device: str) -> str | None:
    """The sentence that says by how much memory is short for a phase; None when it fits."""
    on_cpu = device == devices.CPU
    places = [("Memory", available_memory_bytes(), memory_bytes(phase, sizes_bytes, on_cpu))]
    if not on_cpu:
        places.append(
            (f"The memory of {device}", available_gpu_memory_bytes(device), gpu_memory_bytes(phase, sizes_bytes))
        )
    for what, free, needed in places:
        if free is not None and needed > free:
            return (
                f"{what} does not suffice for {NAMES[phase]}: about {_gb(needed)} are needed, and {_gb(free)} are "
                "free. Close what else uses it."
            )
    return None


def memory_bytes(phase: str, sizes_bytes: Mapping[str, int], on_cpu: bool = True) -> float:
    """The most that a phase takes. The turn loads one engine after another, in the order of the pipeline; those that
    go to a GPU leave the memory again."""
    most, loaded = 0.0, _LIBRARIES_BYTES
    for engine in _WHILE_LOADING if phase == TURN else (phase,):
        most = max(most, loaded + sizes_bytes[engine] * _WHILE_LOADING[engine])
        loaded += sizes_bytes[engine] * _LOADED[engine] * on_cpu
    return max(most, loaded)


def gpu_memory_bytes(phase: str, sizes_bytes: Mapping[str, int]) -> float:
    """Of a GPU: weights, caches and what is computed."""
    engines = sizes_bytes if phase == TURN else (phase,)
    return sum(sizes_bytes[engine] * _ON_GPU + _WORKSPACE_BYTES for engine in engines)


def available_gpu_memory_bytes(device: str) -> int | None:
    """What is free of a CUDA device; None where PyTorch cannot tell."""
    import torch

    return torch.cuda.mem_get_info(device)[0] if torch.cuda.is_available() else None


def available_memory_bytes() -> int | None:
    """What the system says can be had without swapping; None where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return None


def _free_disk_bytes() -> int:
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _or_only(fitting: Iterable[str]) -> str:
    names = ",".join(fitting)
    return f", or measure less with --only {names}" if names else ""


def _gb(size: float) -> str:
    return f"{size / GB:.1f} GB"
