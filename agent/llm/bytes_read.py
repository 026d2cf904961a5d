"""How many bytes one token makes llama.cpp read: of the weights and of the KV cache, from the file's own tensors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.llm.gguf_header import GgufHeader, Tensor

KV_ELEMENT_BYTES = 2  # keys and values are kept as 16-bit floats

_EMBEDDING, _OUTPUT_OF_HEAD, _KV_HEADS = "token_embd.weight", "nextn.shared_head_head.weight", "attention.head_count_kv"
_ONE_ROW_PER_TOKEN = (_EMBEDDING, "position_embd.weight", "token_types.weight", "nextn.embed_tokens.weight")
_OF_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_MAKES_KV = ("attn_k.", "attn_v.", "attn_k_norm.")

# Where the file does not list its sliding-window layers: every how many layers one attends to everything, and whether
# it is the first of them instead of the last.
_PERIODS: Mapping[str, tuple[int, bool]] = {
    "afmoe": (4, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone-moe": (4, False),
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "laguna": (4, True),
    "mellum": (4, False),
    "muse-glimmer": (4, False),
    "olmo2": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
}
_WINDOW = {"gemma2": 4096, "smallthinker": 4096}  # where the file may not say
_WINDOW_IGNORED = ("phi3", "phimoe")  # by llama.cpp: all layers attend to everything
_MEMORY_OF_ITS_OWN_KIND = ("llama4", "deepseek32", "deepseek4", "dots3note", "glm-dsa", "glm5-next", "minimax-m3")


@dataclass(frozen=True)
class _LayerCache:
    """What attention in one layer reads: `bytes` for each cell, of at most `window` cells (0: of all)."""

    bytes: int
    window: int


class BytesRead:
    """What the evaluation of tokens by some layers of a file reads; `of_model` and `of_heads` say which.

    Nothing of this is measured: it is what the arithmetic needs, each byte once a batch. What the library reads besides
    is not in it: padding, and cells that a mask hides.
    """

    def __init__(self, header: GgufHeader, layers: range, *, recurrent: bool) -> None:
        self._header = header
        self._layers = layers
        of_layers = [match[2] for tensor in header.tensors if (match := _OF_LAYER.match(tensor.name))]
        self._has_experts = any("_exps." in name for name in of_layers)
        self._output = "output.weight" if any(t.name == "output.weight" for t in header.tensors) else _EMBEDDING
        self._has_own_output = any(self._reads_layer(t) and t.name.endswith(_OUTPUT_OF_HEAD) for t in header.tensors)
        self._weights = self._weights_of_a_token()
        self._caches = None if recurrent else self._layer_caches()

    @classmethod
    def of_model(cls, header: GgufHeader, *, recurrent: bool) -> "BytesRead":
        """The model that writes. `recurrent` ones keep another state than keys and values."""
        trunk = header.integer("block_count") - header.integer("nextn_predict_layers")
        return cls(header, range(trunk), recurrent=recurrent)

    @classmethod
    def of_heads(cls, header: GgufHeader) -> "BytesRead":
        """What drafts: the first multi-token head of a model's file, or all layers of a file that is nothing else."""
        layers = header.integer("block_count")
        trunk = layers - header.integer("nextn_predict_layers")
        return cls(header, range(trunk, trunk + 1 if trunk else layers), recurrent=False)

    def weight_bytes(self, batch_tokens: int = 1) -> int | None:
        """Of the weights, by one batch: the embedding's rows of its tokens (all of it where it is the output head too)
        and every other matrix once; of a mixture of experts those that one token goes to.

        None where it cannot be known: for a format of weights that is not known here, and for several tokens that may
        share experts or not.
        """
        if self._weights is None or (self._has_experts and batch_tokens > 1):
            return None
        rows, rest = self._weights
        return rows * batch_tokens + rest

    def kv_bytes(self, depth: int) -> int | None:
        """Of the KV cache, by the evaluation of a token that attends to `depth` cells, its own among them; by a batch
        whose last token does, the same, for its tokens share what they read.

        Layers that share another's keys and values read them again. None for models with another kind of memory.
        """
        if self._caches is None:
            return None
        return sum(cache.bytes * (min(depth, cache.window) if cache.window else depth) for cache in self._caches)

    def _weights_of_a_token(self) -> tuple[int, int] | None:
        """Bytes of the rows that a token picks, and of what is read whatever the token is."""
        rows, rest = 0, 0.0
        for tensor in self._header.tensors:
            if tensor.bytes is None or tensor.row_bytes is None:
                return None
            is_output = tensor.name == self._output and not self._has_own_output
            if tensor.name.endswith(_ONE_ROW_PER_TOKEN) and not is_output:
                rows += tensor.row_bytes * self._reads_layer(tensor)
            elif is_output or tensor.name != self._output:
                rest += tensor.bytes * self._share(tensor)
        return rows, round(rest)

    def _reads_layer(self, tensor: Tensor) -> bool:
        match = _OF_LAYER.match(tensor.name)
        return match is None or int(match[1]) in self._layers

    def _share(self, tensor: Tensor) -> float:
        """The part of a tensor that one token reads."""
        match = _OF_LAYER.match(tensor.name)
        if match is None:
            return 1
        layer, name = int(match[1]), match[2]
        layers_with_kv = self._layers.stop - self._header.integer("attention.shared_kv_layers")
        if layer not in self._layers or (layer >= layers_with_kv and name.startswith(_MAKES_KV)):
            return 0  # the layer of another part; or one that takes another's keys and values
        if "_exps." not in name:
            return 1
        used = self._header.per_layer("expert_used_count", self._layers.stop)
        return used[layer] / self._header.integer("expert_count", 1)

    def _layer_caches(self) -> Sequence[_LayerCache] | None:
        header, count = self._header, self._layers.stop
        local = self._sliding(count)
        if local is None:
            return None
        window = header.integer("attention.sliding_window", _WINDOW.get(header.architecture, 0))
        heads = header.per_layer("attention.head_count", count)
        kv_heads = heads if header.get("attention.head_count_kv") is None else header.per_layer(_KV_HEADS, count)
        head_size = header.integer("embedding_length") // max([1, *heads[:1]])
        keys = header.integer("attention.key_length", head_size)
        values = header.integer("attention.value_length", head_size)
        local_keys = header.integer("attention.key_length_swa", keys)
        local_values = header.integer("attention.value_length_swa", values)
        if header.get("attention.key_length_mla") is not None:
            values = local_values = 0  # the values are a part of the keys
        return [
            _LayerCache(kv_heads[layer] * (local_keys + local_values) * KV_ELEMENT_BYTES, window)
            if local[layer]
            else _LayerCache(kv_heads[layer] * (keys + values) * KV_ELEMENT_BYTES, 0)
            for layer in self._layers
        ]

    def _sliding(self, layers: int) -> Sequence[bool] | None:
        """Which layers attend to a sliding window only; None where llama.cpp may do what is not known here."""
        architecture, pattern = self._header.architecture, self._header.get("attention.sliding_window_pattern")
        if architecture in _MEMORY_OF_ITS_OWN_KIND:
            return None
        if isinstance(pattern, tuple):
            return [*map(bool, pattern), *[False] * layers][:layers]
        window = self._header.integer("attention.sliding_window", _WINDOW.get(architecture, 0))
        if not window or architecture in _WINDOW_IGNORED:
            return [False] * layers
        if architecture not in _PERIODS:
            return None
        period, full_first = _PERIODS[architecture]
        period = int(pattern) if isinstance(pattern, int) else period
        full = 0 if full_first else period - 1
        return [period == 0 or layer % period != full for layer in range(layers)]
