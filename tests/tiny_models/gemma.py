"""Tiny GGUF files of the Gemma 4 architecture: sliding and global layers, Gemma's control tokens, a chat template with
native thinking, and a vocabulary of ordinary words. With random weights such a model speaks nonsense words; with a
script it says what the script says. Deterministic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, TokenType

F16, F32 = GGMLQuantizationType.F16, GGMLQuantizationType.F32

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
CONTROLS = ("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|think|>", "<|image>")
VISIBLE = ("<|channel>", "<channel|>")  # tags that llama.cpp renders
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'-:;()"
STOPS = (".", ",", "?", "!")
SPOKEN = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could my "
    "people than first water been call who oil its now find long down day did get come made may part yes well sure "
    "hello okay weather today sunny rain music light turn left right set timer minutes done sorry repeat please answer"
)
WORDS = tuple(SPOKEN.split())


@dataclass(frozen=True)
class Shape:
    """Every `period`-th layer attends to everything, the others to `window` tokens. `shared_kv_layers` at the end use
    the keys and values of earlier ones; `per_layer` is the width of an embedding for each layer; of `experts` a token
    goes to `experts_used`. The vocabulary is filled up to `vocabulary`."""

    layers: int = 6
    period: int = 3
    embedding: int = 64
    feed_forward: int = 128
    heads: int = 4
    local_kv_heads: int = 2
    local_head: int = 16
    global_kv_heads: int = 1
    global_head: int = 32
    window: int = 32
    context: int = 512
    vocabulary: int = 0
    shared_kv_layers: int = 0
    per_layer: int = 0
    experts: int = 0
    experts_used: int = 0

    @property
    def local(self) -> list[bool]:
        return [layer % self.period != self.period - 1 for layer in range(self.layers)]


SMALL = Shape()
GEMMA_4_12B = Shape(
    layers=48, period=6, embedding=3840, feed_forward=15360, heads=16, local_kv_heads=8, local_head=256,
    global_kv_heads=1, global_head=512, window=1024, context=131072, vocabulary=262144,
)  # fmt: skip


class Vocabulary:
    """The tokens in order; every beginning of a word is one, so that merging letter by letter reaches the words."""

    def __init__(self, size: int = 0) -> None:
        self.tokens = [
            *((text, TokenType.CONTROL) for text in CONTROLS),
            *((t, TokenType.USER_DEFINED) for t in VISIBLE),
        ]
        self.tokens += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
        self.merges: list[str] = []
        texts = dict.fromkeys(["\n", "▁", *LETTERS, *STOPS])
        for word in [*(f"▁{word}" for word in WORDS), "thought", "user", "model", "system"]:
            for end in range(2, len(word) + 1):
                if word[:end] not in texts:
                    texts[word[:end]] = None
                    self.merges.append(f"{word[: end - 1]} {word[end - 1]}")
        self.tokens += [(text, TokenType.NORMAL) for text in texts]
        self.tokens += [(f"<unused{at}>", TokenType.UNUSED) for at in range(size - len(self.tokens))]
        self.number = {text: at for at, (text, _) in enumerate(self.tokens)}

    def speakable(self) -> list[int]:
        """The numbers of whole words, stops and the end of a turn."""
        return [self.number[text] for text in (*(f"▁{word}" for word in WORDS), *STOPS, "<turn|>")]


class TinyFile:
    """Collects settings and tensors; a tensor's shape has the row's length last. Random values depend on nothing but
    their order."""

    def __init__(self, path: Path, architecture: str, weights: GGMLQuantizationType) -> None:
        self.writer = gguf.GGUFWriter(path, architecture)
        self.random = np.random.default_rng(0)
        self._weights = weights
        self._tensors: dict[str, tuple[tuple[int, ...], GGMLQuantizationType, Callable[[], np.ndarray]]] = {}

    def matrix(self, name: str, *shape: int, values: np.ndarray | None = None) -> None:
        """Random where no values are given."""
        self._tensors[name] = (shape, self._weights, lambda: self._random(shape) if values is None else values)

    def _random(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[-1]))

    def vector(self, name: str, size: int, value: float = 1) -> None:
        self._tensors[name] = ((size,), F32, lambda: np.full(size, value, np.float32))

    def put(self, name: str, values: np.ndarray) -> None:
        self._tensors[name] = (values.shape, F32, lambda: values)

    def finish(self, *, data: bool = True) -> None:
        for name, (shape, kind, values) in self._tensors.items():
            if data:
                self.writer.add_tensor(name, gguf.quantize(values(), kind), raw_dtype=kind)
            else:
                size = prod(gguf.quant_shape_to_byte_shape(shape, kind)) * (1 if kind not in (F16, F32) else 4)
                self.writer.add_tensor_info(name, shape, np.dtype(np.float32), size, kind)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        if data:
            self.writer.write_tensors_to_file()
        else:
            self.writer.write_ti_data_to_file()
        self.writer.close()


def write_gemma(
    path: Path,
    shape: Shape = SMALL,
    *,
    script: Sequence[str] = (),
    template: str | None = TEMPLATE,
    weights: GGMLQuantizationType = F16,
    suppressed: Sequence[str] = (),
    data: bool = True,
) -> Path:
    """A model that speaks nonsense words, or with a `script` the next token of it after each of its tokens: the first
    follows a line break, and its layers add nothing. Without `data` the file is a header only."""
    file, words = TinyFile(path, "gemma4", weights), Vocabulary(shape.vocabulary)
    _add_settings(file.writer, shape, words, template)
    if suppressed:
        file.writer.add_array("tokenizer.ggml.suppress_tokens", [words.number[text] for text in suppressed])
    embeddings = embeddings_of(file, words, shape.embedding) if data else None
    file.matrix("token_embd.weight", len(words.tokens), shape.embedding, values=embeddings)
    if script and embeddings is not None:
        file.matrix("output.weight", *embeddings.shape, values=next_of(script, words, embeddings))
    file.vector("output_norm.weight", shape.embedding)
    if shape.per_layer:
        file.matrix("per_layer_token_embd.weight", len(words.tokens), shape.per_layer * shape.layers)
        file.matrix("per_layer_model_proj.weight", shape.per_layer * shape.layers, shape.embedding)
        file.vector("per_layer_proj_norm.weight", shape.per_layer)
    # Global layers turn a quarter of a head's dimensions only.
    turned = shape.global_head // 8
    file.put("rope_freqs.weight", np.array([1.0] * turned + [1e30] * (shape.global_head // 2 - turned), np.float32))
    for layer in range(shape.layers):
        _add_layer(file, shape, layer, norm=0 if script else 1)
    file.finish(data=data)
    return path


def embeddings_of(file: TinyFile, words: Vocabulary, width: int) -> np.ndarray:
    """Unit rows for what is spoken and short ones for the rest, which is therefore never the likeliest token."""
    rows = file.random.standard_normal((len(words.tokens), width)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    silent = np.ones(len(rows), bool)
    silent[words.speakable()] = False
    rows[silent] *= 0.05
    return rows


def next_of(script: Sequence[str], words: Vocabulary, embeddings: np.ndarray, ahead: int = 1) -> np.ndarray:
    """An output head that goes from each token of the script to the one so far ahead of it."""
    output, spoken = np.zeros_like(embeddings), ["\n", *script]
    for before, after in zip(spoken, spoken[ahead:], strict=False):
        row = embeddings[words.number[before]]
        output[words.number[after]] += 8 * row / np.linalg.norm(row)
    return output


def _add_settings(writer: gguf.GGUFWriter, shape: Shape, words: Vocabulary, template: str | None) -> None:
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
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
    writer.add_shared_kv_layers(shape.shared_kv_layers)
    writer.add_embedding_length_per_layer_input(shape.per_layer)
    writer.add_final_logit_softcapping(30.0)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
        writer.add_expert_feed_forward_length(shape.feed_forward)
    add_vocabulary(writer, words, template)


def add_vocabulary(writer: gguf.GGUFWriter, words: Vocabulary, template: str | None) -> None:
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list([text for text, _ in words.tokens])
    writer.add_token_scores([0.0] * len(words.tokens))
    writer.add_token_types([kind for _, kind in words.tokens])
    writer.add_token_merges(words.merges)
    for add, text in (
        (writer.add_bos_token_id, "<bos>"), (writer.add_eos_token_id, "<turn|>"),
        (writer.add_unk_token_id, "<unk>"), (writer.add_pad_token_id, "<pad>"),
    ):  # fmt: skip
        add(words.number[text])
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    if template is not None:
        writer.add_chat_template(template)


def _add_layer(file: TinyFile, shape: Shape, layer: int, *, norm: float) -> None:
    """With a `norm` of 0 the layer adds nothing to what it gets."""
    local, width, wide, at = shape.local[layer], shape.embedding, shape.feed_forward, f"blk.{layer}"
    head = shape.local_head if local else shape.global_head
    kv_heads = shape.local_kv_heads if local else shape.global_kv_heads
    for name in ("attn_norm", "ffn_norm"):
        file.vector(f"{at}.{name}.weight", width)
    for name in ("post_attention_norm", "post_ffw_norm"):
        file.vector(f"{at}.{name}.weight", width, norm)
    file.matrix(f"{at}.attn_q.weight", shape.heads * head, width)
    file.matrix(f"{at}.attn_output.weight", width, shape.heads * head)
    file.vector(f"{at}.attn_q_norm.weight", head)
    if layer < shape.layers - shape.shared_kv_layers:
        file.matrix(f"{at}.attn_k.weight", kv_heads * head, width)
        file.vector(f"{at}.attn_k_norm.weight", head)
        if local:  # in a global layer the keys serve as values too
            file.matrix(f"{at}.attn_v.weight", kv_heads * head, width)
    for name in ("ffn_gate", "ffn_up"):
        file.matrix(f"{at}.{name}.weight", wide, width)
    file.matrix(f"{at}.ffn_down.weight", width, wide)
    file.vector(f"{at}.layer_output_scale.weight", 1)
    if shape.experts:
        _add_experts(file, shape, at)
    if shape.per_layer:
        file.matrix(f"{at}.inp_gate.weight", shape.per_layer, width)
        file.matrix(f"{at}.proj.weight", width, shape.per_layer)
        file.vector(f"{at}.post_norm.weight", width)


def _add_experts(file: TinyFile, shape: Shape, at: str) -> None:
    width, wide, experts = shape.embedding, shape.feed_forward, shape.experts
    file.put(f"{at}.ffn_gate_inp.weight", np.eye(experts, width, dtype=np.float32))
    file.vector(f"{at}.ffn_gate_inp.scale", width)
    for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
        file.vector(f"{at}.{name}.weight", width)
    file.matrix(f"{at}.ffn_gate_up_exps.weight", experts, 2 * wide, width)
    file.matrix(f"{at}.ffn_down_exps.weight", experts, width, wide)
