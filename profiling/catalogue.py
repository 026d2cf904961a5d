"""Machines and models by name, with the source of every figure: what a prediction without a run starts from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeVar

from profiling.formats import canonical


class UnknownName(ValueError):
    """A sentence: which name is not known, and those that are."""


@dataclass(frozen=True)
class NamedMachine:
    """Bytes per second read from memory, and dense operations per second where known. Catalogue figures are what a
    maker promises; measured ones are what a program reached."""

    what: str
    bytes_per_s: float
    flops_per_s: float | None
    source: str


@dataclass(frozen=True)
class KvLayers:
    """Layers with a KV cache: for each of the positions that they reach back (all, without a window) a key and a value
    per KV head are kept."""

    layers: int
    kv_heads: int
    head_size: int
    window: int | None = None
    element_bytes: float = 2

    def bytes_read(self, context: float) -> float:
        """By one token after so many."""
        reached = context if self.window is None else min(context, self.window)
        return 2 * self.layers * self.kv_heads * self.head_size * self.element_bytes * reached


@dataclass(frozen=True)
class LanguageModel:
    """`active` parameters are those that a token uses (all, where None), `computed` those that a prompt's tokens are
    multiplied with: the active ones without embeddings, None where not known. `weights_bytes` are sizes as they were
    loaded, by format; `kv` is empty where not known."""

    what: str
    parameters: float
    source: str
    active: float | None = None
    computed: float | None = None
    format: str = "Q4_K_M"
    weights_bytes: Mapping[str, float] = field(default_factory=dict[str, float])
    kv: tuple[KvLayers, ...] = ()

    def loaded_bytes(self, weight_format: str) -> float | None:
        """Of the weights, as they were loaded in a format; None where that is not known. Raises UnknownFormat."""
        return self.weights_bytes.get(canonical(weight_format))

    def kv_bytes(self, context: float) -> float | None:
        """Keys and values read for one token after so many; None where the layers are not known."""
        return sum(layers.bytes_read(context) for layers in self.kv) if self.kv else None


@dataclass(frozen=True)
class Voice:
    """An autoregressive synthesiser with a diffusion module: bytes read by a patch, and its measured law of time over
    seconds of sound, at so many diffusion steps."""

    what: str
    frames_per_s: float
    frames_per_patch: int
    diffusion_steps: int
    patch_bytes: float
    forward_bytes: float
    fixed_s: float
    slope: float
    source: str


@dataclass(frozen=True)
class Recogniser:
    """A cache-aware streaming recogniser. `contexts` are the right contexts it was trained for, in frames."""

    what: str
    parameters: float
    encoder_parameters: float
    frame_s: float
    left_context: int
    contexts: tuple[int, ...]
    source: str
    format: str = "F32"


Model = LanguageModel | Voice | Recogniser
_Entry = TypeVar("_Entry")

_GB, _TFLOP, _GIB = 1e9, 1e12, 2.0**30
_WHITE_PAPER = "NVIDIA's white paper: fp16 with fp32 sums, dense"
_DATA_SHEET = "NVIDIA's data sheet: fp16, dense"

MACHINES: Mapping[str, NamedMachine] = {
    "rtx5090": NamedMachine("RTX 5090, 32 GB", 1792 * _GB, 209.5 * _TFLOP, _WHITE_PAPER),
    "rtx4090": NamedMachine("RTX 4090, 24 GB", 1008 * _GB, 165.2 * _TFLOP, _WHITE_PAPER),
    "rtx3090": NamedMachine("RTX 3090, 24 GB", 936 * _GB, 71 * _TFLOP, _WHITE_PAPER),
    "h200": NamedMachine("H200 SXM, 141 GB", 4800 * _GB, 989 * _TFLOP, _DATA_SHEET),
    "h100": NamedMachine("H100 SXM, 80 GB", 3350 * _GB, 989 * _TFLOP, _DATA_SHEET),
    "a100": NamedMachine("A100 SXM, 80 GB", 2039 * _GB, 312 * _TFLOP, _DATA_SHEET),
    "a100-40gb": NamedMachine("A100, 40 GB", 1555 * _GB, 312 * _TFLOP, _DATA_SHEET),
    "l4": NamedMachine("L4, 24 GB", 300 * _GB, 121 * _TFLOP, _DATA_SHEET),
    "ddr5-5600-dual": NamedMachine("Two channels of DDR5-5600", 2 * 8 * 5.6 * _GB, None, "8 bytes x 5600 MT/s, twice"),
    "ddr4-3200-dual": NamedMachine("Two channels of DDR4-3200", 2 * 8 * 3.2 * _GB, None, "8 bytes x 3200 MT/s, twice"),
    "gpu-24gb": NamedMachine("24 GB consumer GPU", 905 * _GB, None, "measured: sum over a 1 GiB tensor"),
    "gpu-8gb": NamedMachine("8 GB GPU", 250 * _GB, 31.8 * _TFLOP, "measured: read; fp16 matrix product of 4096^3"),
    "xeon-core": NamedMachine(
        "One Xeon core, NumPy", 25.7 * _GB, 136.8e9, "measured: slope of time on bytes; fp32 matrix product, batch 512"
    ),
}

_QWEN3_KV = (KvLayers(28, 8, 128),)
_QWEN3 = "loaded weights as measured (vLLM); model card"
_NOMINAL = "parameters by its name"

MODELS: Mapping[str, Model] = {
    "dense-8b": LanguageModel("dense 8B", 8e9, _NOMINAL),
    "dense-14b": LanguageModel("dense 14B", 14e9, _NOMINAL),
    "dense-70b": LanguageModel("dense 70B", 70e9, _NOMINAL),
    "moe-30b": LanguageModel("MoE 30B, 3.3B active", 30e9, _NOMINAL, active=3.3e9),
    "gemma-4-12b": LanguageModel(
        "Gemma 4 12B",
        11.907e9,
        "size of the Q4_0 file; model card",
        computed=11.907e9 - 262_144 * 3840,
        format="Q4_0",
        weights_bytes={"Q4_0": 7.0e9},
        kv=(KvLayers(40, 8, 256, window=1024), KvLayers(8, 1, 512)),
    ),
    "qwen3-0.6b": LanguageModel(
        "Qwen3 0.6B", 0.6e9, _QWEN3, computed=0.44e9, format="BF16", weights_bytes={"BF16": 1.12 * _GIB}, kv=_QWEN3_KV
    ),
    "qwen3-1.7b": LanguageModel(
        "Qwen3 1.7B",
        1.7e9,
        _QWEN3,
        computed=1.4e9,
        format="BF16",
        weights_bytes={"BF16": 3.22 * _GIB, "FP8": 1.90 * _GIB},
        kv=_QWEN3_KV,
    ),
    "qwen3-4b": LanguageModel(
        "Qwen3 4B",
        4.0e9,
        _QWEN3,
        computed=3.6e9,
        format="FP8",
        weights_bytes={"FP8": 4.32 * _GIB},
        kv=(KvLayers(36, 8, 128),),
    ),
    "smollm2-135m": LanguageModel(
        "SmolLM2 135M",
        134_515_008,
        "model card",
        computed=134_515_008 - 49_152 * 576,
        format="Q8_0",
        kv=(KvLayers(30, 3, 64),),
    ),
    "voxcpm2": Voice(
        "VoxCPM2",
        frames_per_s=25,
        frames_per_patch=4,
        diffusion_steps=10,
        patch_bytes=4038e6 + 302e6,  # weights of everything but the diffusion module; the KV cache of 8192 positions
        forward_bytes=424e6,
        fixed_s=0.23,
        slope=0.475,
        source="published: regression over 12 sentences on a 24 GB consumer GPU; bytes by the weights' shapes, bf16",
    ),
    "nemotron": Recogniser(
        "Nemotron 3.5 ASR streaming 0.6B",
        parameters=637_997_088,
        encoder_parameters=609.1e6,
        frame_s=0.080,
        left_context=56,
        contexts=(0, 1, 3, 6, 13),
        source="model card; parameters by the weights' shapes",
    ),
}


def machine(name: str) -> NamedMachine:
    """Raises UnknownName."""
    return _found(name, MACHINES, "machine")


def model(name: str) -> Model:
    """Raises UnknownName."""
    return _found(name, MODELS, "model")


def language_models() -> dict[str, LanguageModel]:
    return {name: each for name, each in MODELS.items() if isinstance(each, LanguageModel)}


def _found(name: str, entries: Mapping[str, _Entry], what: str) -> _Entry:
    entry = entries.get(name.strip().lower())
    if entry is None:
        raise UnknownName(_unknown(name, entries, what))
    return entry


def _unknown(name: str, names: Iterable[str], what: str) -> str:
    close = get_close_matches(name.lower(), list(names), n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    return f"There is no {what} {name!r}. {hint}There are {', '.join(names)}."
