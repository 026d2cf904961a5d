"""Tiny GGUF files with multi-token heads: Gemma 4's in a file of their own, and a model that has one in its own file.

With a script both draft the token of it that follows the last one, or, with `ahead` 2, the one that is two after the
token whose hidden state they get; with random weights they draft anything.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType

from tests.tiny_models.gemma import (
    SMALL,
    TEMPLATE,
    Shape,
    TinyFile,
    Vocabulary,
    add_vocabulary,
    embeddings_of,
    next_of,
)

WIDTH, LAYERS = 32, 2  # of Gemma's heads: one layer attends as the model's last local layer does, one as its last


def write_gemma_heads(
    path: Path, shape: Shape = SMALL, *, script: Sequence[str] = (), ahead: int = 1, width: int = 0
) -> Path:
    """Heads for `write_gemma` of the same shape and script; of another model for another `width`."""
    file, words = TinyFile(path, "gemma4-assistant", GGMLQuantizationType.F32), Vocabulary(shape.vocabulary)
    writer, backbone = file.writer, width or shape.embedding
    writer.add_context_length(shape.context)
    writer.add_embedding_length(WIDTH)
    writer.add_embedding_length_out(backbone)
    writer.add_block_count(LAYERS)
    writer.add_nextn_predict_layers(LAYERS)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv([shape.local_kv_heads, shape.global_kv_heads])
    writer.add_key_length(shape.global_head)
    writer.add_value_length(shape.global_head)
    writer.add_key_length_swa(shape.local_head)
    writer.add_value_length_swa(shape.local_head)
    writer.add_rope_dimension_count(shape.global_head)
    writer.add_rope_dimension_count_swa(shape.local_head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_sliding_window(shape.window)
    writer.add_sliding_window_pattern([True, False])
    writer.add_shared_kv_layers(LAYERS)
    add_vocabulary(writer, words, None)
    narrowing = file.random.standard_normal((WIDTH, backbone)).astype(np.float32)
    embeddings = file.random.standard_normal((len(words.tokens), WIDTH)).astype(np.float32)
    if script:
        model = TinyFile(path, "gemma4", GGMLQuantizationType.F32)
        embeddings = next_of(script, words, embeddings_of(model, words, backbone) @ narrowing.T, ahead)
    file.matrix("token_embd.weight", *embeddings.shape, values=embeddings)
    file.matrix("nextn.post_projection.weight", backbone, WIDTH)
    halves = [narrowing, 0 * narrowing] if ahead == 1 else [0 * narrowing, narrowing]  # token, hidden state
    file.matrix("nextn.pre_projection.weight", WIDTH, 2 * backbone, values=np.hstack(halves))
    file.vector("output_norm.weight", WIDTH)
    for layer, head in enumerate((shape.local_head, shape.global_head)):
        at = f"blk.{layer}"
        for name in ("attn_norm", "ffn_norm"):
            file.vector(f"{at}.{name}.weight", WIDTH)
        for name in ("post_attention_norm", "post_ffw_norm"):
            file.vector(f"{at}.{name}.weight", WIDTH, 0 if script else 1)
        file.vector(f"{at}.attn_q_norm.weight", head)
        file.vector(f"{at}.layer_output_scale.weight", 1)
        file.matrix(f"{at}.attn_q.weight", shape.heads * head, WIDTH)
        file.matrix(f"{at}.attn_output.weight", WIDTH, shape.heads * head)
        for name in ("ffn_gate", "ffn_up", "ffn_down"):
            file.matrix(f"{at}.{name}.weight", WIDTH, WIDTH)
    file.put("rope_freqs.weight", np.ones(shape.global_head // 2, np.float32))
    file.finish()
    return path


def write_with_head(path: Path, *, script: Sequence[str] = (), ahead: int = 1) -> Path:
    """A model of two layers and a head (architecture hy_v3), all in one file."""
    file, words, width = TinyFile(path, "hy_v3", GGMLQuantizationType.F32), Vocabulary(), 64
    writer = file.writer
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(3)
    writer.add_nextn_predict_layers(1)
    writer.add_feed_forward_length(width)
    writer.add_expert_feed_forward_length(width)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    add_vocabulary(writer, words, TEMPLATE)
    embeddings = embeddings_of(file, words, width)
    output = next_of(script, words, embeddings) if script else embeddings
    file.matrix("token_embd.weight", *embeddings.shape, values=embeddings)
    file.matrix("output.weight", *output.shape, values=output)
    file.vector("output_norm.weight", width)
    nothing = np.zeros((width, width), np.float32) if script else None
    for layer in range(3):
        at = f"blk.{layer}"
        for name in ("attn_norm", "ffn_norm"):
            file.vector(f"{at}.{name}.weight", width)
        for name in ("attn_q_norm", "attn_k_norm"):
            file.vector(f"{at}.{name}.weight", width // 2)
        for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
            file.matrix(f"{at}.{name}.weight", width, width)
        for name in ("attn_output", "ffn_down"):
            file.matrix(f"{at}.{name}.weight", width, width, values=nothing)
    for name in ("enorm", "hnorm"):
        file.vector(f"blk.2.nextn.{name}.weight", width)
    same, none = np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)
    halves = np.hstack([same, none] if ahead == 1 else [none, same])  # token, hidden state
    file.matrix("blk.2.nextn.eh_proj.weight", width, 2 * width, values=halves if script else None)
    if ahead > 1:
        output = next_of(script, words, embeddings, ahead)
        file.matrix("blk.2.nextn.shared_head_head.weight", *output.shape, values=output)
    file.finish()
    return path
