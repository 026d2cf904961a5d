"""Bits per weight of the formats as they are."""

import pytest

from agent.llm import gguf_header
from profiling import formats
from profiling.formats import UnknownFormat


def test_the_blocks_are_those_that_files_are_read_with() -> None:
    blocks = {
        block.ggml_type: (name, block.elements, block.bytes)
        for name, block in formats.BLOCKS.items()
        if block.ggml_type is not None
    }
    assert blocks == gguf_header._BLOCKS


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        *[("F32", 32), ("f16", 16), ("fp16", 16), ("bf16", 16), ("fp8", 8), ("Q4_0", 4.5), ("Q4_1", 5), ("q8_0", 8.5)],
        *[("Q4_K", 4.5), ("Q5_K", 5.5), ("Q6_K", 6.5625), ("MXFP4", 4.25), ("NVFP4", 4.5), ("Q2_K", 2.625)],
    ],
)
def test_bits_per_weight(name: str, bits: float) -> None:
    assert formats.bits_per_weight(name) == bits


def test_an_unknown_format_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownFormat, match=r"no weight format 'Q4_X'; there are F32, .*Q4_K_M"):
        formats.bits_per_weight("Q4_X")


def llama(layers: int, width: int, kv_width: int, inner: int, words: int, head: bool = True) -> list[tuple[str, int]]:
    """The matrices of a Llama by their names in a GGUF file."""
    tensors = [("token_embd.weight", words * width)] + [("output.weight", words * width)] * head
    for at in range(layers):
        sizes = {"attn_q": width, "attn_k": kv_width, "attn_v": kv_width, "attn_output": width}
        sizes |= {"ffn_gate": inner, "ffn_up": inner, "ffn_down": inner}
        tensors += [(f"blk.{at}.{name}.weight", width * size) for name, size in sizes.items()]
    return tensors


@pytest.mark.parametrize(
    ("tensors", "layers", "bits"),
    [
        (llama(32, 4096, 4096, 11_008, 32_000), 32, 4.84),  # Llama 7B
        (llama(32, 4096, 1024, 14_336, 128_256), 32, 4.89),  # Llama 3.1 8B
        (llama(80, 8192, 1024, 28_672, 32_000), 80, 4.80),  # Llama 2 70B
    ],
)
def test_a_mixture_by_its_tensors(tensors: list[tuple[str, int]], layers: int, bits: float) -> None:
    assert formats.mixture_bits("Q4_K_M", tensors, layers) == pytest.approx(bits, abs=0.005)


def test_the_typical_mixture_is_what_a_model_has() -> None:
    tensors = llama(80, 8192, 1024, 28_672, 32_000)
    for mixture, bits in (("Q4_K_M", 4.8), ("Q5_K_M", 5.7)):
        assert formats.bits_per_weight(mixture) == bits == round(formats.mixture_bits(mixture, tensors, 80), 1)


def test_half_of_the_down_projections_get_more_bits() -> None:
    kinds = [formats.format_of_tensor("Q4_K_M", f"blk.{at}.ffn_down.weight", 32) for at in range(32)]
    assert kinds.count("Q6_K") == 16 and kinds[:4] == kinds[-4:] == ["Q6_K"] * 4
    assert formats.format_of_tensor("Q4_K_M", "blk.0.ffn_up.weight", 32) == "Q4_K"
    assert formats.format_of_tensor("Q8_0", "blk.0.ffn_up.weight", 32) == "Q8_0"


def test_embeddings_that_are_the_head_too_get_its_bits() -> None:
    tensors = llama(1, 64, 64, 64, 10_000, head=False)
    assert formats.mixture_bits("Q4_K_M", tensors, 1) > 6.4


def test_the_12b_model_with_embeddings_of_six_bits() -> None:
    """6.70 GB all in Q4_0, 6.96 with Q6_K embeddings."""
    parameters, embeddings = 11.907e9, 262_144 * 3840
    assert parameters * formats.mean_bits({"Q4_0": 1}) / 8 == pytest.approx(6.70e9, abs=0.005e9)
    mixed = formats.mean_bits({"Q4_0": parameters - embeddings, "Q6_K": embeddings})
    assert parameters * mixed / 8 == pytest.approx(6.96e9, abs=0.005e9)
