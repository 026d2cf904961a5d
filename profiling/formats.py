"""How many bits a weight takes in each format: formats store weights in blocks, mixtures give each tensor its format.

Sources: ggml's block layouts (ggml/src/ggml-common.h) and llama.cpp's choice of a format by tensor
(`llama_tensor_get_type`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


class UnknownFormat(ValueError):
    """A sentence: which format is not known, and those that are."""


@dataclass(frozen=True)
class Block:
    """So many weights, scales and minima included, take so many bytes; `ggml_type` is None outside of ggml."""

    elements: int
    bytes: int
    ggml_type: int | None = None

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.bytes / self.elements


BLOCKS: Mapping[str, Block] = {
    "F32": Block(1, 4, 0),
    "F16": Block(1, 2, 1),
    "BF16": Block(1, 2, 30),
    "FP8": Block(1, 1),
    "Q4_0": Block(32, 18, 2),
    "Q4_1": Block(32, 20, 3),
    "Q5_0": Block(32, 22, 6),
    "Q5_1": Block(32, 24, 7),
    "Q8_0": Block(32, 34, 8),
    "Q8_1": Block(32, 40, 9),
    "Q2_K": Block(256, 84, 10),
    "Q3_K": Block(256, 110, 11),
    "Q4_K": Block(256, 144, 12),
    "Q5_K": Block(256, 176, 13),
    "Q6_K": Block(256, 210, 14),
    "Q8_K": Block(256, 292, 15),
    "IQ1_S": Block(256, 50, 19),
    "IQ1_M": Block(256, 56, 29),
    "IQ2_XXS": Block(256, 66, 16),
    "IQ2_XS": Block(256, 74, 17),
    "IQ2_S": Block(256, 82, 22),
    "IQ3_XXS": Block(256, 98, 18),
    "IQ3_S": Block(256, 110, 21),
    "IQ4_NL": Block(32, 18, 20),
    "IQ4_XS": Block(256, 136, 23),
    "TQ1_0": Block(256, 54, 34),
    "TQ2_0": Block(256, 66, 35),
    "MXFP4": Block(32, 17, 39),
    "NVFP4": Block(64, 36, 40),
    "Q1_0": Block(128, 18, 41),
    "I8": Block(1, 1, 24),
    "I16": Block(1, 2, 25),
    "I32": Block(1, 4, 26),
    "I64": Block(1, 8, 27),
    "F64": Block(1, 8, 28),
}
_ALIASES = {"FP32": "F32", "FLOAT32": "F32", "FP16": "F16", "FLOAT16": "F16", "BFLOAT16": "BF16", "FLOAT64": "F64"}
# Most tensors of a mixture have the first format, those that matter most the second.
_MIXTURES = {"Q4_K_M": ("Q4_K", "Q6_K"), "Q5_K_M": ("Q5_K", "Q6_K")}
_HEAD, _EMBEDDING = "output.weight", "token_embd.weight"
_TYPICAL_SHARE_OF_MORE_BITS = (
    0.145  # of the weights of Llama 2 70B: output head, half of the values and down-projections
)


def names() -> list[str]:
    """All formats and mixtures that a model's weights come in."""
    return [*BLOCKS, *_MIXTURES]


def canonical(name: str) -> str:
    """The name as it stands in the tables. Raises UnknownFormat."""
    upper = name.strip().upper()
    known = _ALIASES.get(upper, upper)
    if known not in BLOCKS and known not in _MIXTURES:
        raise UnknownFormat(f"There is no weight format {name!r}; there are {', '.join(names())}.")
    return known


def bits_per_weight(name: str) -> float:
    """Exact for a format. For a mixture what a typical model has, to one decimal, since models differ beyond that
    (Q4_K_M: Llama 2 70B 4.80, Llama 7B 4.84, Llama 3.1 8B 4.89). Raises UnknownFormat."""
    known = canonical(name)
    if known in BLOCKS:
        return BLOCKS[known].bits_per_weight
    most, more = _MIXTURES[known]
    share = _TYPICAL_SHARE_OF_MORE_BITS
    return round(mean_bits({most: 1 - share, more: share}), 1)


def mean_bits(weights_by_format: Mapping[str, float]) -> float:
    """Bits per weight of a model from how many of its weights, or which share, each format holds."""
    total = sum(weights_by_format.values())
    return sum(BLOCKS[canonical(name)].bits_per_weight * count for name, count in weights_by_format.items()) / total


def mixture_bits(mixture: str, tensors: Iterable[tuple[str, int]], layers: int) -> float:
    """Bits per weight of a mixture by the tensors of a model: their names in a GGUF file and their numbers of weights.

    Vectors, which stay in F32, may be left out: they are less than a thousandth. Raises UnknownFormat.
    """
    listed, counts = list(tensors), dict[str, float]()
    head = _HEAD if any(name == _HEAD for name, _ in listed) else _EMBEDDING
    for name, elements in listed:
        kind = format_of_tensor(mixture, name, layers, head)
        counts[kind] = counts.get(kind, 0) + elements
    return mean_bits(counts)


def format_of_tensor(mixture: str, tensor: str, layers: int, head: str = _HEAD) -> str:
    """Which format llama.cpp gives a matrix: more bits to the output head (the token embeddings, where a model has no
    other), and to the values and down-projections of the first and last eighth of the layers and of every third
    between. Raises UnknownFormat."""
    known = canonical(mixture)
    if known in BLOCKS:
        return known
    most, more = _MIXTURES[known]
    if tensor == head:
        return more
    if tensor.endswith((".attn_v.weight", ".ffn_down.weight")):
        return more if _gets_more_bits(int(tensor.split(".")[1]), layers) else most
    return most


def _gets_more_bits(layer: int, layers: int) -> bool:
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
