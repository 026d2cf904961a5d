"""A VoxCPM2 checkpoint folder with random weights, in the library's own layout. What it says is nonsense, loud enough
to be heard, and never comes to an end by itself."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers

from agent.experiments.full_size.making import Recipe
from agent.experiments.full_size.shapes import VoxCpmShape
from agent.experiments.full_size.words import BEGINS_WORD, WORDS, words_and_merges
from agent.tts.voxcpm_checkpoint import skeleton

VERSION = 1
PATCH_FRAMES = 4
_VAE = "audio_vae."
_POSITIONS = 32_768  # that the rotary embeddings are made for
_MARKERS = {101: "<|audio_start|>", 102: "<|audio_end|>", 103: "<|audio_prompt_start|>", 104: "<|audio_prompt_end|>"}
_GAIN, _LOUDNESS = 0.5, 50.0  # of the VAE's convolutions, and of its last one
_DRAWN = 4_000_000  # values drawn for a tensor; a larger one repeats them


def recipe(shape: VoxCpmShape) -> Recipe:
    size = size_bytes(shape)
    return Recipe("voxcpm2", shape, VERSION, size, lambda folder: write(folder, shape), disk_bytes=size)


def size_bytes(shape: VoxCpmShape) -> int:
    """Of the model's tensors; those of the VAE are 32-bit numbers."""
    element = 2 if shape.dtype == "bfloat16" else 4
    tensors = skeleton(config(shape)).state_dict()
    return sum(t.numel() * (4 if name.startswith(_VAE) else element) for name, t in tensors.items())


def write(folder: Path, shape: VoxCpmShape) -> None:
    settings = config(shape)
    (folder / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    _write_tokenizer(folder)
    generator = torch.Generator().manual_seed(0)
    shapes = {name: tuple(tensor.shape) for name, tensor in skeleton(settings).state_dict().items()}
    dtype = torch.bfloat16 if shape.dtype == "bfloat16" else torch.float32
    vae = {
        name.removeprefix(_VAE): _random(name, size, generator, torch.float32)
        for name, size in shapes.items()
        if name.startswith(_VAE)
    }
    vae["decoder.sr_bin_boundaries"] = torch.tensor(
        settings["audio_vae_config"]["sr_bin_boundaries"], dtype=torch.int32
    )
    vae[_last_gain(vae)].fill_(_LOUDNESS)
    torch.save({"state_dict": vae}, folder / "audiovae.pth")
    main = {name: _random(name, size, generator, dtype) for name, size in shapes.items() if not name.startswith(_VAE)}
    _never_stop(main)
    save_file(main, folder / "model.safetensors")


def _never_stop(tensors: Mapping[str, torch.Tensor]) -> None:
    """The stop head sees SiLU(1) in every channel and compares the sums of its two rows."""
    tensors["stop_proj.weight"].zero_()
    tensors["stop_proj.bias"].fill_(1.0)
    tensors["stop_head.weight"][0].fill_(1.0)
    tensors["stop_head.weight"][1].fill_(0.0)


def _last_gain(vae: Mapping[str, torch.Tensor]) -> str:
    last = max(int(name.split(".")[2]) for name in vae if name.startswith("decoder.model."))
    return f"decoder.model.{last}.weight_g"


def _random(name: str, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Values that keep the scale of what flows through."""
    if name.endswith(("norm.weight", "layernorm.weight", "alpha", "scale_embed.weight")):
        return torch.ones(shape, dtype=dtype)
    if name.endswith("weight_g"):
        return torch.full(shape, _GAIN, dtype=dtype)
    if name.endswith(("bias", "bias_embed.weight")):
        return torch.zeros(shape, dtype=dtype)
    size = math.prod(shape)
    fan_in = 1 if "embed" in name or "token" in name else max(1, math.prod(shape[1:]))
    values = (torch.randn(min(size, _DRAWN), generator=generator) / math.sqrt(fan_in)).to(dtype)
    return values.repeat(-(-size // len(values)))[:size].reshape(shape).contiguous()


def _write_tokenizer(folder: Path) -> None:
    """A byte-fallback BPE of the Llama kind that knows ordinary words, with the library's markers in their places."""
    specials = ["<unk>", "<s>", "</s>", *(_MARKERS.get(number, f"<|reserved_{number}|>") for number in range(3, 105))]
    pieces, merges = words_and_merges(f"{BEGINS_WORD}{word}" for word in WORDS)
    vocabulary = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: number for number, piece in enumerate(vocabulary)},
            merges=merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(BEGINS_WORD), normalizers.Replace(" ", BEGINS_WORD)]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BEGINS_WORD, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": True,
        "legacy": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def config(shape: VoxCpmShape) -> dict[str, Any]:
    """The contents of config.json."""
    local = {
        "hidden_dim": shape.local_width,
        "ffn_dim": shape.local_feed_forward,
        "num_heads": shape.local_heads,
        "num_layers": shape.local_layers,
        "kv_channels": shape.head,
    }
    factors = [1.0] * (shape.head // 2)
    return {
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_size": shape.width,
            "intermediate_size": shape.feed_forward,
            "max_position_embeddings": _POSITIONS,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "num_key_value_heads": shape.kv_heads,
            "kv_channels": shape.head,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000,
            "rope_scaling": {
                "type": "longrope",
                "long_factor": factors,
                "short_factor": factors,
                "original_max_position_embeddings": _POSITIONS,
            },
            "vocab_size": shape.vocabulary,
            "use_mup": False,
            "scale_emb": 12,
            "dim_model_base": 256,
            "scale_depth": 1.4,
        },
        "patch_size": PATCH_FRAMES,
        "feat_dim": 64,
        "scalar_quantization_latent_dim": shape.quantizer_width,
        "scalar_quantization_scale": 9,
        "residual_lm_num_layers": shape.residual_layers,
        "residual_lm_no_rope": True,
        "encoder_config": local,
        "dit_config": {
            **local,
            "dit_mean_mode": False,
            "cfm_config": {"sigma_min": 1e-6, "solver": "euler", "t_scheduler": "log-norm", "inference_cfg_rate": 2.0},
        },
        "audio_vae_config": {
            "encoder_dim": shape.vae_encoder_width,
            "encoder_rates": [2, 5, 8, 8],
            "latent_dim": 64,
            "decoder_dim": shape.vae_decoder_width,
            "decoder_rates": [8, 6, 5, 2, 2, 2],
            "sr_bin_boundaries": [20_000, 30_000, 40_000],
            "sample_rate": 16_000,
            "out_sample_rate": 48_000,
        },
        "max_length": shape.kv_positions,
        "device": "cpu",
        "dtype": shape.dtype,
    }
