"""A GGUF file of Gemma 4's architecture with random weights in Q4_0, written block by block.

Source of the tensors' names and shapes: llama.cpp, src/models/gemma4.cpp. A block of Q4_0 is a 16-bit scale and 32
weights of 4 bits, of which 8 stands for nought.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, TokenType
from numpy.typing import NDArray

from agent.experiments.full_size.making import Recipe
from agent.experiments.full_size.shapes import GemmaShape
from agent.experiments.full_size.words import BEGINS_WORD, SPOKEN, STOPS, WORDS, words_and_merges

VERSION = 1
FILE = "model.gguf"
TEMPLATE = (
    "{{ bos_token }}{% set turns = messages %}"
    "{% if enable_thinking or messages[0].role == 'system' %}{{ '<|turn>system\n' }}"
    "{% if enable_thinking %}{{ '<|think|>\n' }}{% endif %}"
    "{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% set turns = messages[1:] %}{% endif %}"
    "{{ '<turn|>\n' }}{% endif %}"
    "{% for m in turns %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    "{{ m.content.split('<channel|>')[-1] | trim }}{{ '<turn|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn>model\n' }}"
    "{% if not enable_thinking %}{{ '<|channel>thought\n<channel|>' }}{% endif %}{% endif %}"
)
_CONTROLS = ("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|think|>")
_TAGS = ("<|channel>", "<channel|>")  # visible to llama.cpp's callers

_BLOCK, _BLOCK_BYTES, _SCALE_BYTES = 32, 18, 2
_POOL_BLOCKS = 1 << 20  # as many random blocks are drawn; tensors repeat them from different beginnings
_SPREAD = 4.32  # standard deviation of a weight of scale 1: whole numbers from -7 to 7, evenly
_LOUD, _SOFT = 5.0, 0.5  # spread of the logits of what is spoken, and of the rest, which is never the likeliest
_RESTLESS = 32.0  # gain of a layer: what comes next depends on all that came before, not on the last token alone


def recipe(shape: GemmaShape) -> Recipe:
    size = size_bytes(shape)
    return Recipe("gemma-gguf", shape, VERSION, size, lambda folder: write(folder / FILE, shape), disk_bytes=size)


@dataclass(frozen=True)
class _Tensor:
    """`shape` has the length of a row last. `value` is that of every element of a 32-bit one, None of a random Q4_0."""

    name: str
    shape: tuple[int, ...]
    value: float | None = None

    @property
    def bytes(self) -> int:
        elements = prod(self.shape)
        return elements // _BLOCK * _BLOCK_BYTES if self.value is None else 4 * elements


def size_bytes(shape: GemmaShape) -> int:
    """Of the tensors; the vocabulary and the settings are a few megabytes more."""
    return sum(tensor.bytes for tensor in tensors_of(shape, shape.vocabulary))


def write(path: Path, shape: GemmaShape) -> None:
    vocabulary = Vocabulary(shape.vocabulary)
    tensors = list(tensors_of(shape, len(vocabulary.tokens)))
    writer = gguf.GGUFWriter(path, "gemma4")
    try:
        _add_settings(writer, shape)
        _add_vocabulary(writer, vocabulary)
        for tensor in tensors:
            kind = GGMLQuantizationType.Q4_0 if tensor.value is None else GGMLQuantizationType.F32
            stored = gguf.quant_shape_to_byte_shape(tensor.shape, kind) if tensor.value is None else tensor.shape
            dtype = np.dtype(np.uint8) if tensor.value is None else np.dtype(np.float32)
            writer.add_tensor_info(tensor.name, stored, dtype, tensor.bytes, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        random = _Random(shape.width)
        for tensor in tensors:
            if tensor.name == "token_embd.weight":
                writer.write_tensor_data(random.embeddings(tensor.shape, vocabulary.spoken))
            else:
                writer.write_tensor_data(random.blocks(tensor.shape) if tensor.value is None else _numbers(tensor))
    finally:
        writer.close()


class Vocabulary:
    """The tokens in order, filled up to `size`; `spoken` are the numbers of words and stops."""

    def __init__(self, size: int) -> None:
        words = [f"{BEGINS_WORD}{word}" for word in WORDS]
        pieces, merges = words_and_merges([*words, *WORDS, "thought", "user", "model", "system"])
        self.merges = [f"{left} {right}" for left, right in merges]
        self.tokens: list[tuple[str, TokenType]] = [(text, TokenType.CONTROL) for text in _CONTROLS]
        self.tokens += [(text, TokenType.USER_DEFINED) for text in _TAGS]
        self.tokens += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
        self.tokens += [(text, TokenType.NORMAL) for text in ("\n", *pieces)]
        self.tokens += [(f"<unused{at}>", TokenType.UNUSED) for at in range(size - len(self.tokens))]
        self.number = {text: at for at, (text, _) in enumerate(self.tokens)}
        self.spoken = [self.number[text] for text in (*(f"{BEGINS_WORD}{word}" for word in SPOKEN), *STOPS)]


class _Random:
    """Random blocks of Q4_0 for rows of `width` weights."""

    def __init__(self, width: int) -> None:
        generator = np.random.default_rng(0)
        nibbles = generator.integers(1, 16, size=(_POOL_BLOCKS, 2, _BLOCK // 2), dtype=np.uint8)
        self._pool = np.empty((_POOL_BLOCKS, _BLOCK_BYTES), np.uint8)
        self._pool[:, _SCALE_BYTES:] = nibbles[:, 0] | nibbles[:, 1] << 4
        self._width = width
        self._set_spread(self._pool, 1)
        self._generator = generator

    def blocks(self, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """For a tensor of this shape: uint8, (..., bytes of a row)."""
        count = prod(shape) // _BLOCK
        out = np.empty((count, _BLOCK_BYTES), np.uint8)
        start = int(self._generator.integers(_POOL_BLOCKS))
        filled = 0
        while filled < count:
            piece = self._pool[start : start + count - filled]
            out[filled : filled + len(piece)] = piece
            filled, start = filled + len(piece), 0
        return out.reshape(*shape[:-1], -1)

    def embeddings(self, shape: tuple[int, ...], spoken: list[int]) -> NDArray[np.uint8]:
        """Blocks in which the rows of what is spoken have a loud spread and all others a soft one."""
        embeddings = self.blocks(shape)
        rows = embeddings.reshape(shape[0], -1, _BLOCK_BYTES)
        self._set_spread(rows, _SOFT)
        loud = rows[spoken]
        self._set_spread(loud, _LOUD)
        rows[spoken] = loud
        return embeddings

    def _set_spread(self, blocks: NDArray[np.uint8], spread: float) -> None:
        """The scale with which a row times a vector of unit power has this standard deviation."""
        scale = np.array([spread / _SPREAD / sqrt(self._width)], np.float16)
        blocks[..., :_SCALE_BYTES] = scale.view(np.uint8)


def _numbers(tensor: _Tensor) -> NDArray[np.float32]:
    values = np.full(tensor.shape, tensor.value, np.float32)
    if tensor.name == "rope_freqs.weight":  # global layers turn a quarter of a head's dimensions only
        values[len(values) // 4 :] = 1e30
    return values


def tensors_of(shape: GemmaShape, tokens: int) -> Iterator[_Tensor]:
    """Those of the file, in its order; the embeddings are the output head too."""
    yield _Tensor("token_embd.weight", (tokens, shape.width))
    yield _Tensor("output_norm.weight", (shape.width,), 1)
    yield _Tensor("rope_freqs.weight", (shape.global_head // 2,), 1)
    for layer, local in enumerate(shape.local):
        yield from (_Tensor(f"blk.{layer}.{t.name}.weight", t.shape, t.value) for t in _of_layer(shape, local))


def _of_layer(shape: GemmaShape, local: bool) -> Iterator[_Tensor]:
    """In a global layer the keys serve as values too."""
    width, wide = shape.width, shape.feed_forward
    head = shape.local_head if local else shape.global_head
    of_keys = head * (shape.local_kv_heads if local else shape.global_kv_heads)
    yield from (_Tensor(name, (width,), 1) for name in ("attn_norm", "ffn_norm"))
    yield from (_Tensor(name, (width,), _RESTLESS) for name in ("post_attention_norm", "post_ffw_norm"))
    yield from (_Tensor(name, (head,), 1) for name in ("attn_q_norm", "attn_k_norm"))
    yield _Tensor("layer_output_scale", (1,), 1)
    yield _Tensor("attn_q", (shape.heads * head, width))
    yield from (_Tensor(name, (of_keys, width)) for name in (("attn_k", "attn_v") if local else ("attn_k",)))
    yield _Tensor("attn_output", (width, shape.heads * head))
    yield from (_Tensor(name, (wide, width)) for name in ("ffn_gate", "ffn_up"))
    yield _Tensor("ffn_down", (width, wide))


def _add_settings(writer: gguf.GGUFWriter, shape: GemmaShape) -> None:
    writer.add_name("random weights in the shape of Gemma 4")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv([shape.local_kv_heads if local else shape.global_kv_heads for local in shape.local])
    writer.add_key_length(shape.global_head)
    writer.add_value_length(shape.global_head)
    writer.add_key_length_swa(shape.local_head)
    writer.add_value_length_swa(shape.local_head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_freq_base_swa(1e4)
    writer.add_rope_dimension_count(shape.global_head)
    writer.add_rope_dimension_count_swa(shape.local_head)
    writer.add_sliding_window(shape.window)
    writer.add_sliding_window_pattern(shape.local)
    writer.add_shared_kv_layers(0)
    writer.add_embedding_length_per_layer_input(0)
    writer.add_final_logit_softcapping(30.0)


def _add_vocabulary(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list([text for text, _ in vocabulary.tokens])
    writer.add_token_scores([0.0] * len(vocabulary.tokens))
    writer.add_token_types([kind for _, kind in vocabulary.tokens])
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.number["<bos>"])
    writer.add_eos_token_id(vocabulary.number["<turn|>"])
    writer.add_unk_token_id(vocabulary.number["<unk>"])
    writer.add_pad_token_id(vocabulary.number["<pad>"])
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
