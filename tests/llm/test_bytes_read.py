"""Bytes per token against sums made by hand, and against what llama.cpp says of the same files."""

import struct
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from agent.errors import TurnscopeError
from agent.llm import gguf_header
from agent.llm.bytes_read import BytesRead
from agent.llm.gguf_header import GgufHeader, Tensor
from agent.llm.kv_cache import KvCache
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Message
from profiling.trace import vocabulary as v
from tests.fakes.ticking import TickingClock, never
from tests.llm.reading import Read, read
from tests.llm.tiny_gguf import write_scripted
from tests.tiny_models.gemma import GEMMA_4_12B, Shape, Vocabulary, write_gemma
from tests.tiny_models.multi_token import write_gemma_heads, write_with_head

TOKENS = len(Vocabulary().tokens)
F16, F32 = 2, 4

# One layer of `write_gemma`: width 64, feed-forward 128, 4 heads; local 2 KV heads of 16, global 1 KV head of 32.
NORMS = (4 * 64 + 1) * F32
FEED_FORWARD = 3 * 64 * 128 * F16
LOCAL_Q, LOCAL_KV, LOCAL_QK_NORM = 2 * 64 * 64 * F16, 2 * 64 * 32 * F16, 16 * F32
GLOBAL_Q, GLOBAL_KV, GLOBAL_QK_NORM = 2 * 64 * 128 * F16, 64 * 32 * F16, 32 * F32
LOCAL = NORMS + FEED_FORWARD + LOCAL_Q + LOCAL_KV + 2 * LOCAL_QK_NORM
GLOBAL = NORMS + FEED_FORWARD + GLOBAL_Q + GLOBAL_KV + 2 * GLOBAL_QK_NORM
REST = 64 * F32 + 16 * F32  # the last norm, and the table of frequencies
EMBEDDING, ROW = TOKENS * 64 * F16, 64 * F16


def model_reads(path: Path) -> BytesRead:
    return BytesRead.of_model(GgufHeader(path), recurrent=False)


def generated(engine: LlamaEngine, thinking_tokens: int = 0) -> Read:
    ask = [Message("user", "hello there")]
    return read(engine.generate(ask, thinking_tokens=thinking_tokens, max_tokens=9, should_stop=never))


def test_a_tied_embedding_is_read_whole_and_an_untied_one_by_the_row(tmp_path: Path) -> None:
    tied = model_reads(write_gemma(tmp_path / "tied.gguf"))
    assert tied.weight_bytes() == EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL
    assert tied.weight_bytes(3) == tied.weight_bytes()
    untied = model_reads(write_gemma(tmp_path / "untied.gguf", script=["▁yes", "<turn|>"]))
    assert untied.weight_bytes() == ROW + EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL
    assert untied.weight_bytes(3) == 3 * ROW + EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL


def test_layers_that_share_keys_and_values_make_none_and_read_them_again(tmp_path: Path) -> None:
    path = write_gemma(tmp_path / "shared.gguf", Shape(shared_kv_layers=3))  # two local layers and a global one
    assert model_reads(path).weight_bytes() == EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL - (
        2 * (LOCAL_KV + LOCAL_QK_NORM) + GLOBAL_KV + GLOBAL_QK_NORM
    )
    assert model_reads(path).kv_bytes(100) == model_reads(write_gemma(tmp_path / "own.gguf")).kv_bytes(100)


def test_of_a_mixture_of_experts_the_active_ones_are_read(tmp_path: Path) -> None:
    reads = model_reads(write_gemma(tmp_path / "experts.gguf", Shape(experts=8, experts_used=2)))
    one_expert = 3 * 64 * 128 * F16
    router = (8 * 64 + 64 + 3 * 64) * F32
    assert reads.weight_bytes() == EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL + 6 * (router + 2 * one_expert)
    assert reads.weight_bytes(2) is None  # two tokens may go to two experts or to four


def test_an_embedding_for_each_layer_is_read_by_the_row(tmp_path: Path) -> None:
    reads = model_reads(write_gemma(tmp_path / "deep.gguf", Shape(per_layer=32)))
    projection = 6 * 32 * 64 * F16 + 32 * F32
    in_a_layer = 2 * 32 * 64 * F16 + 64 * F32
    assert reads.weight_bytes() == (
        EMBEDDING + REST + 4 * LOCAL + 2 * GLOBAL + 6 * 32 * F16 + projection + 6 * in_a_layer
    )


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(shared_kv_layers=3), Shape(experts=8, experts_used=2), Shape(per_layer=32)]
)
@pytest.mark.parametrize("weights", [Type.F16, Type.Q8_0, Type.Q4_0])
def test_the_tensors_sum_to_what_llama_cpp_loads(tmp_path: Path, shape: Shape, weights: Type) -> None:
    path = write_gemma(tmp_path / "m.gguf", shape, weights=weights)
    engine = LlamaEngine(path, clock=TickingClock())
    assert sum(tensor.bytes or 0 for tensor in GgufHeader(path).tensors) == engine.weights_bytes
    assert generated(engine).tokens


def test_gemma_4_12b(tmp_path: Path) -> None:
    """The figures of a 12B in Q4_0, from a header of its shape without the weights."""
    reads = model_reads(write_gemma(tmp_path / "12b.gguf", GEMMA_4_12B, weights=Type.Q4_0, data=False))
    for depth in (1, 500, 1024, 1025, 8192):
        assert reads.kv_bytes(depth) == min(depth, 1024) * 327_680 + depth * 16_384
    matrices = 262_144 * 3840 + 48 * 3 * 3840 * 15_360
    matrices += 40 * 3840 * (2 * 16 * 256 + 2 * 8 * 256) + 8 * 3840 * (2 * 16 * 512 + 512)
    vectors = 48 * (4 * 3840 + 1) + 40 * 2 * 256 + 8 * 2 * 512 + 3840 + 256
    assert reads.weight_bytes() == matrices * 18 // 32 + vectors * 4
    assert round((matrices + vectors) / 1e9, 3) == 11.907 and round((reads.weight_bytes() or 0) / 1e9, 2) == 6.7


def test_the_kv_cache_holds_what_a_token_reads(tmp_path: Path) -> None:
    """llama.cpp's saved state grows by a token's keys and values, and a few bytes about its cell."""
    engine = LlamaEngine(write_gemma(tmp_path / "m.gguf"), clock=TickingClock())
    cache = KvCache(engine._context)
    cache.evaluate([5] * 9, never)
    before = llama_cpp.llama_state_seq_get_size(engine._context.handle, 0)
    cache.evaluate([5] * 10, never)
    grown = llama_cpp.llama_state_seq_get_size(engine._context.handle, 0) - before
    assert engine.kv_bytes(1) == 4 * (2 * 2 * 16) * F16 + 2 * (2 * 32) * F16
    assert 0 <= grown - 10 * (engine.kv_bytes(1) or 0) < 10 * 64
    assert engine.kv_bytes(100) == 32 * 4 * (2 * 2 * 16) * F16 + 100 * 2 * (2 * 32) * F16


def test_a_dense_model_without_windows(tmp_path: Path) -> None:
    reads = model_reads(write_scripted(tmp_path / "m.gguf", ["▁yes", "<|im_end|>"]))
    assert [reads.kv_bytes(depth) for depth in (1, 100)] == [2 * 128 * F16, 100 * 2 * 128 * F16]


@pytest.mark.parametrize(
    ("architecture", "settings", "local_layers"),
    [
        ("gemma3", {"attention.sliding_window": 64}, 10),
        ("gemma3", {"attention.sliding_window": 64, "attention.sliding_window_pattern": 2}, 6),
        ("gemma3", {}, 0),
        ("gemma2", {}, 6),
        ("cohere2moe", {"attention.sliding_window": 64}, 9),
        ("phi3", {"attention.sliding_window": 64}, 0),
        ("llama", {}, 0),
        ("qwen9", {"attention.sliding_window": 64}, None),
        ("llama4", {}, None),
    ],
)
def test_windows_by_architecture(
    tmp_path: Path, architecture: str, settings: dict[str, int], local_layers: int | None
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", architecture)
    numbers = {"block_count": 12, "embedding_length": 256, "attention.head_count": 8, "attention.head_count_kv": 2}
    for name, number in {**numbers, **settings}.items():
        writer.add_uint32(f"{architecture}.{name}", number)
    writer.add_tensor("token_embd.weight", np.zeros((4, 256), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    window = 4096 if architecture == "gemma2" else 64
    cell = 2 * 2 * 32 * F16
    expected = None if local_layers is None else cell * (local_layers * window + (12 - local_layers) * 9999)
    assert model_reads(tmp_path / "m.gguf").kv_bytes(9999) == expected


def test_a_recurrent_state_is_no_kv_cache(tmp_path: Path) -> None:
    header = GgufHeader(write_gemma(tmp_path / "m.gguf"))
    assert BytesRead.of_model(header, recurrent=True).kv_bytes(9) is None
    assert BytesRead.of_model(header, recurrent=True).weight_bytes() is not None


def test_heads(tmp_path: Path) -> None:
    header = GgufHeader(write_gemma_heads(tmp_path / "h.gguf"))
    heads = BytesRead.of_heads(header)
    assert heads.weight_bytes() == sum(tensor.bytes or 0 for tensor in header.tensors)
    assert heads.kv_bytes(100) == 32 * 2 * 2 * 16 * F16 + 100 * 2 * 32 * F16
    own = GgufHeader(write_with_head(tmp_path / "own.gguf"))
    layer = {n: sum(t.bytes or 0 for t in own.tensors if t.name.startswith(f"blk.{n}.")) for n in range(3)}
    rest = TOKENS * 64 * F32 + 64 * F32 + 64 * F32  # output head, last norm, a row of the embedding
    assert BytesRead.of_model(own, recurrent=False).weight_bytes() == layer[0] + layer[1] + rest
    assert BytesRead.of_heads(own).weight_bytes() == layer[2] + rest
    assert BytesRead.of_heads(own).kv_bytes(7) == 7 * 2 * 64 * F16


def test_a_file_in_several_parts(tmp_path: Path) -> None:
    whole = write_gemma(tmp_path / "whole.gguf")
    reader = gguf.GGUFReader(whole)
    for number, tensors in ((1, reader.tensors[:5]), (2, reader.tensors[5:])):
        writer = gguf.GGUFWriter(tmp_path / f"part-{number:05}-of-00002.gguf", "gemma4")
        if number == 1:
            for key in ("block_count", "embedding_length"):
                writer.add_uint32(f"gemma4.{key}", int(reader.fields[f"gemma4.{key}"].parts[-1][0]))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    header = GgufHeader(tmp_path / "part-00001-of-00002.gguf")
    assert {t.name: t.bytes for t in header.tensors} == {t.name: t.bytes for t in GgufHeader(whole).tensors}
    assert header.architecture == "gemma4" and header.integer("block_count") == 6
    (tmp_path / "part-00002-of-00002.gguf").unlink()
    with pytest.raises(TurnscopeError, match=r"part-00002-of-00002.gguf cannot be read .No such file.*all its parts"):
        GgufHeader(tmp_path / "part-00001-of-00002.gguf")


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    path = write_gemma(tmp_path / "m.gguf", data=False)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TurnscopeError, match=r"header of .* is damaged"):
        GgufHeader(path)
    for damaged in (b"", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**64 - 1)):
        path.write_bytes(damaged)
        with pytest.raises(TurnscopeError, match=r"header of .* is damaged"):
            GgufHeader(path)


def test_a_tensor_without_dimensions_is_one_element(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    name = b"blk.0.layer_output_scale.weight"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, len(name)) + name + struct.pack("<IIQ", 0, 0, 0))
    assert GgufHeader(path).tensors == [Tensor(name.decode(), (1,), 4, "F32")]


def test_an_unknown_format_of_weights_gives_no_number(tmp_path: Path) -> None:
    header = GgufHeader(write_gemma(tmp_path / "m.gguf", data=False))
    header.tensors[3] = Tensor(header.tensors[3].name, (64, 64), None, "4711")
    assert BytesRead.of_model(header, recurrent=False).weight_bytes() is None


def test_the_formats_are_those_of_the_gguf_package() -> None:
    ours = {Type(number): block for number, block in gguf_header._BLOCKS.items()}
    assert ours == {kind: (kind.name, *block) for kind, block in gguf.GGML_QUANT_SIZES.items()}


def test_every_token_says_what_it_read(tmp_path: Path) -> None:
    script = ["<|channel>", "thought", "▁well", "▁so", "<channel|>", "▁yes", "▁no", "<turn|>"]
    engine = LlamaEngine(write_gemma(tmp_path / "m.gguf", script=script), clock=TickingClock())
    weights = engine.weight_bytes_per_token
    assert weights is not None and engine.attributes == {v.LLM_WEIGHT_BYTES: weights}
    result = generated(engine, thinking_tokens=2)
    assert result.prefill is not None and result.prefill.prompt_tokens is not None
    depth = result.prefill.prompt_tokens
    # <|channel>: from the prompt's logits. thought, well: one evaluation each. Then "well" and the injected tag in one
    # batch; yes from its logits; no; and the end.
    expected = [(0, 0), (weights, 1), (weights, 2), (weights + ROW, 4), (0, 0), (weights, 5), (weights, 6)]
    kv = [0 if deeper == 0 else engine.kv_bytes(depth + deeper) for _, deeper in expected]
    assert [token.weight_bytes for token in result.tokens] == [weight for weight, _ in expected]
    assert [token.kv_bytes for token in result.tokens] == kv
