"""The header of a GGUF file: its settings and the list of its tensors, without their data.

llama.cpp tells the sum of the tensors' sizes, but not their names and shapes, without which nobody knows which of them
a token reads. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from agent.errors import TurnscopeError

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]

_STRING, _ARRAY = 8, 9
_FORMAT = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LONGEST_ARRAY = 4096  # longer ones are the vocabulary's: they are passed over
_PART_OF_SEVERAL = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")

# Weights are stored in blocks: the format's name, elements and bytes of a block, by ggml's number of the type.
_BLOCKS: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}


@dataclass(frozen=True)
class Tensor:
    """`shape` is in ggml's order, the length of a row first; `row_bytes` is None for a format not known here, whose
    name is then its number."""

    name: str
    shape: tuple[int, ...]
    row_bytes: int | None
    format: str

    @property
    def bytes(self) -> int | None:
        return None if self.row_bytes is None else self.row_bytes * prod(self.shape[1:])


class GgufHeader:
    """`values` are the settings (the first file's, where a model comes in several), `tensors` those of all files.

    Arrays of strings and long arrays, the vocabulary's, are not kept; `vocabulary` are the bytes that the tokens take
    in the header, equal for equal vocabularies. Raises TurnscopeError for a header that is damaged, and for a file that
    cannot be read or is missing.
    """

    def __init__(self, path: Path) -> None:
        self.vocabulary = b""
        self.values: dict[str, Value] = {}
        self.tensors: list[Tensor] = []
        for part in reversed(_parts(path)):
            self._read(part)

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._take(_Reader(data))
        except OSError as error:
            raise TurnscopeError(
                f"{path} cannot be read ({error.strerror}): give a GGUF file with all its parts beside it."
            ) from error
        except (struct.error, KeyError, OverflowError, ValueError) as error:  # ValueError: an empty file
            raise TurnscopeError(
                f"The header of {path} is damaged or of an unknown version: fetch the file again."
            ) from error

    def _take(self, reader: "_Reader") -> None:
        _version, tensors, values = reader.number("I"), reader.number("Q"), reader.number("Q")
        self.values = {}
        for _ in range(values):
            key, start = reader.string(), reader.at
            value = reader.value()
            if value is not None:
                self.values[key] = value
            if key == "tokenizer.ggml.tokens":
                self.vocabulary = reader.data[start : reader.at]
        self.tensors += [reader.tensor() for _ in range(tensors)]

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", ""))

    @property
    def has_only_heads(self) -> bool:
        """Whether the file holds multi-token heads without the model that they belong to."""
        layers, heads = self.integer("block_count"), self.integer("nextn_predict_layers")
        return heads > 0 and (heads == layers or all(t.name != "blk.0.attn_norm.weight" for t in self.tensors))

    def get(self, name: str) -> Value | None:
        """A setting of the architecture, such as `attention.head_count`."""
        return self.values.get(f"{self.architecture}.{name}")

    def integer(self, name: str, default: int = 0) -> int:
        value = self.get(name)
        return int(value) if isinstance(value, int | float) else default

    def per_layer(self, name: str, layers: int, default: int = 0) -> list[int]:
        """A setting that is one number for all layers or one for each."""
        value = self.get(name)
        if isinstance(value, tuple):
            return [int(each) for each in value[:layers]]
        return [self.integer(name, default)] * layers


def _parts(path: Path) -> list[Path]:
    """All files of a model that comes in several (NAME-00001-of-00003.gguf), of which the first is given."""
    match = _PART_OF_SEVERAL.search(path.name)
    if match is None:
        return [path]
    stem, count = path.name[: match.start()], int(match[2])
    return [path.with_name(f"{stem}-{at:05}-of-{count:05}.gguf") for at in range(1, count + 1)]


class _Reader:
    """Moves through the bytes of a header, little-endian."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 4  # after the magic

    def number(self, kind: str) -> int:
        return int(self._unpack(kind)[0])

    def _unpack(self, kinds: str) -> tuple[Scalar, ...]:
        values = struct.unpack_from(f"<{kinds}", self.data, self.at)
        self.at += struct.calcsize(f"<{kinds}")
        return values

    def string(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", errors="replace")

    def value(self) -> Value | None:
        kind = self.number("I")
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self._unpack(_FORMAT[kind])[0]
        kind, count = self.number("I"), self.number("Q")
        if kind == _STRING:
            return self._pass_over_strings(count)
        if count <= _LONGEST_ARRAY:
            return self._unpack(f"{count}{_FORMAT[kind]}")
        self.at += count * struct.calcsize(_FORMAT[kind])
        return None

    def _pass_over_strings(self, count: int) -> None:
        data, at, size = self.data, self.at, struct.Struct("<Q")
        for _ in range(count):
            at += 8 + size.unpack_from(data, at)[0]
        self.at = at

    def tensor(self) -> Tensor:
        name = self.string()
        shape = tuple(self.number("Q") for _ in range(self.number("I"))) or (1,)  # without dimensions: one element
        kind, _offset = self.number("I"), self.number("Q")
        weight_format, elements, size = _BLOCKS.get(kind, (str(kind), 1, None))
        return Tensor(name, shape, None if size is None else shape[0] // elements * size, weight_format)
