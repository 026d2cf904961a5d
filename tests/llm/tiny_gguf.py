"""Tiny GGUF files: a language model that says what a script says, and files of the wrong kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np
from gguf import TokenType

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONTROLS = ("<s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|odd|>")
WORDS = ("\n", "▁yes", "▁no", "▁maybe", "▁well", "▁so", "a", "b", "c")
EMBEDDING, HEADS, FEED_FORWARD = 128, 2, 32


def vocabulary(bytes_known: int = 256) -> list[tuple[str, TokenType]]:
    bytes_ = [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(bytes_known)]
    return [("<unk>", TokenType.UNKNOWN), *((c, TokenType.CONTROL) for c in CONTROLS), *bytes_] + [
        (word, TokenType.NORMAL) for word in WORDS
    ]


def write_scripted(
    path: Path,
    script: Sequence[str],
    *,
    template: str | None = CHATML,
    context: int = 512,
    adds_space: bool = False,
    metadata: Mapping[str, bool] | None = None,
    layers: bool = True,
    bytes_known: int = 256,
) -> Path:
    """A llama-type model whose token after each of the script's is the next one of it; the first follows a line break.

    Its layers add nothing, so what comes next depends on the last token alone. `<0xE6>` stands for a byte.
    """
    tokens = vocabulary(bytes_known)
    number = {text: at for at, (text, _) in enumerate(tokens)}
    random = np.random.default_rng(0)
    embeddings = random.standard_normal((len(tokens), EMBEDDING)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    output = np.zeros_like(embeddings)
    for before, after in zip(["\n", *script[:-1]], script, strict=True):
        output[number[after]] += 8 * embeddings[number[before]]

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([-1.0 / len(text) for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_bos_token_id(number["<s>"])
    writer.add_eos_token_id(number["<|im_end|>"])
    writer.add_add_space_prefix(adds_space)
    writer.add_add_bos_token(True)
    for key, value in (metadata or {}).items():
        writer.add_bool(key, value)
    if template is not None:
        writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(EMBEDDING, np.float32))
    if layers:
        _add_layer(writer)
    return _finish(writer, path)


def _add_layer(writer: gguf.GGUFWriter) -> None:
    square, wide = np.zeros((EMBEDDING, EMBEDDING), np.float32), np.zeros((FEED_FORWARD, EMBEDDING), np.float32)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(EMBEDDING, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    for name in ("ffn_gate", "ffn_up"):
        writer.add_tensor(f"blk.0.{name}.weight", wide)
    writer.add_tensor("blk.0.ffn_down.weight", wide.T.copy())


def write_embedder(path: Path) -> Path:
    """A tiny BERT: text in, one vector out."""
    tokens = [("[PAD]", TokenType.CONTROL), ("[UNK]", TokenType.UNKNOWN), ("[CLS]", TokenType.CONTROL)]
    tokens += [("[SEP]", TokenType.CONTROL), ("▁a", TokenType.NORMAL), ("b", TokenType.NORMAL)]
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(64)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-6)
    writer.add_causal_attention(False)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_token_type_count(2)
    for name, rows in (("token_embd", len(tokens)), ("position_embd", 64), ("token_types", 2)):
        writer.add_tensor(f"{name}.weight", np.ones((rows, EMBEDDING), np.float32))
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(EMBEDDING, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(EMBEDDING, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((EMBEDDING, EMBEDDING), np.float32))
        writer.add_tensor(f"blk.0.{name}.bias", np.zeros(EMBEDDING, np.float32))
    writer.add_tensor("blk.0.ffn_up.weight", np.zeros((FEED_FORWARD, EMBEDDING), np.float32))
    writer.add_tensor("blk.0.ffn_up.bias", np.zeros(FEED_FORWARD, np.float32))
    writer.add_tensor("blk.0.ffn_down.weight", np.zeros((EMBEDDING, FEED_FORWARD), np.float32))
    writer.add_tensor("blk.0.ffn_down.bias", np.zeros(EMBEDDING, np.float32))
    return _finish(writer, path)


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
