"""Copies of a GGUF file in other weight formats and with half of its layers, made by llama.cpp."""

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import llama_cpp

from agent.llm.gguf_header import GgufHeader
from profiling.machine.caches import free_memory_bytes

# By format: llama.cpp's number for it, and the bytes of a weight.
_FORMATS = {
    "Q8_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, 8.5 / 8),
    "Q4_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, 4.5 / 8),
    "F16": (llama_cpp.LLAMA_FTYPE_MOSTLY_F16, 2.0),
}
_FREE_SHARE = 2  # a copy takes at most one part in so many of what is free, on the disk and of memory
_END = -1  # of a list of layers


@dataclass(frozen=True)
class Copy:
    """`halved`: every second layer is left out, which spoils what the model says, but not how it computes."""

    format: str
    halved: bool

    @property
    def name(self) -> str:
        return f"{self.format} half" if self.halved else self.format


def copies_of(header: GgufHeader, own_format: str) -> Iterator[Copy]:
    """All formats with all and with half of the layers, but for the file itself."""
    for halved in (False, True):
        if halved and header.integer("block_count") < 2:
            return
        yield from (Copy(name, halved) for name in _FORMATS if halved or name != own_format)


def fits(copy: Copy, parameters: int, folder: Path) -> bool:
    size = _FORMATS[copy.format][1] * parameters
    return size < shutil.disk_usage(folder).free / _FREE_SHARE and size < free_memory_bytes() / _FREE_SHARE


def write(source: Path, target: Path, copy: Copy, layers: int) -> bool:
    """False where llama.cpp cannot make such a copy of this model."""
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = _FORMATS[copy.format][0]
    parameters.allow_requantize = True
    left_out = [*range(1, layers, 2), _END] if copy.halved else [_END]
    numbers = (ctypes.c_int32 * len(left_out))(*left_out)
    parameters.prune_layers = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int32))
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.pointer(parameters))
    return status == 0
