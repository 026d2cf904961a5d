"""Random-weight VoxCPM2 checkpoints in the library's own layout: the real code and sample rates, nonsense that is loud
enough to be heard.

The dimensions are parameters, so the same functions also make one of the real size.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers

from agent.tts.voxcpm_checkpoint import skeleton

Stop = Literal["at once", "never"]

PATCH_SAMPLES = 7680
SAMPLE_RATE = 48_000
EARLIEST_END = 4  # patches: the library heeds the stop head from then on
_MARKERS = {101: "<|audio_start|>", 102: "<|audio_end|>", 103: "<|audio_prompt_start|>", 104: "<|audio_prompt_end|>"}
_WORDS = (
    "the",
    "this",
    "that",
    "is",
    "are",
    "you",
    "I",
    "can",
    "help",
    "with",
    "how",
    "what",
    "test",
    "hello",
    "there",
    "no",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-()"
_VAE = "audio_vae."
_POSITIONS = 32_768
_GAIN, _LOUDNESS = 0.5, 50.0  # of the VAE's convolutions, and of its last one: the tiny model speaks at -20 dBFS
_BLOCK = 4_000_000  # values drawn for a tensor; a larger one repeats them


@dataclass(frozen=True)
class Shape:
    """Dimensions of a model; the defaults are tiny. The strides and rates are always the real ones."""

    hidden: int = 64
    feed_forward: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    layers: int = 3
    residual_layers: int = 2
    local_hidden: int = 64  # of the local encoder and the diffusion module
    local_feed_forward: int = 128
    local_heads: int = 4
    local_layers: int = 2
    quantizer_dim: int = 32
    vae_encoder_dim: int = 8
    vae_decoder_dim: int = 64
    vocabulary: int = 512
    max_length: int = 512  # positions of the KV caches
    dtype: Literal["float32", "bfloat16"] = "float32"


TINY = Shape()
FULL_SIZE = Shape(
    2048, 6144, 16, 2, 128, 28, 8, 1024, 4096, 16, 12, 512, 128, 2048, 73_448, 8192, "bfloat16"
)  # 2,384 M parameters, 5 GB


def config(shape: Shape = TINY) -> dict[str, Any]:
    """The contents of a config.json."""
    local = {
        "hidden_dim": shape.local_hidden,
        "ffn_dim": shape.local_feed_forward,
        "num_heads": shape.local_heads,
        "num_layers": shape.local_layers,
        "kv_channels": shape.head_dim,
    }
    factors = [1.0] * (shape.head_dim // 2)
    return {
        "architecture": "voxcpm2",
        "lm_config": {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.feed_forward,
            "max_position_embeddings": _POSITIONS,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "num_key_value_heads": shape.kv_heads,
            "kv_channels": shape.head_dim,
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
        "patch_size": 4,
        "feat_dim": 64,
        "scalar_quantization_latent_dim": shape.quantizer_dim,
        "scalar_quantization_scale": 9,
        "residual_lm_num_layers": shape.residual_layers,
        "residual_lm_no_rope": True,
        "encoder_config": local,
        "dit_config": {
            **local,
            "dit_mean_mode": False,
            "cfm_config": {
                "sigma_min": 1e-6,
                "solver": "euler",
                "t_scheduler": "log-norm",
                "inference_cfg_rate": 2.0,
            },
        },
        "audio_vae_config": {
            "encoder_dim": shape.vae_encoder_dim,
            "encoder_rates": [2, 5, 8, 8],
            "latent_dim": 64,
            "decoder_dim": shape.vae_decoder_dim,
            "decoder_rates": [8, 6, 5, 2, 2, 2],
            "sr_bin_boundaries": [20_000, 30_000, 40_000],
            "sample_rate": 16_000,
            "out_sample_rate": SAMPLE_RATE,
        },
        "max_length": shape.max_length,
        "device": "cpu",
        "dtype": shape.dtype,
    }


def write_voxcpm(folder: Path, shape: Shape = TINY, *, seed: int = 0, stop: Stop = "at once") -> Path:
    """Write a checkpoint into `folder` and return it.

    With `stop` "at once" a phrase ends at the earliest patch at which it may, the fourth; with "never" at the
    library's own cap, 6 patches per text token and 10 more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = config(shape)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    write_tokenizer(folder)
    tensors = random_tensors(skeleton(settings).state_dict(), seed=seed, stop=stop)
    vae = {name.removeprefix(_VAE): tensor for name, tensor in tensors.items() if name.startswith(_VAE)}
    vae["decoder.sr_bin_boundaries"] = torch.tensor(
        settings["audio_vae_config"]["sr_bin_boundaries"], dtype=torch.int32
    )
    torch.save({"state_dict": vae}, folder / "audiovae.pth")
    dtype = getattr(torch, shape.dtype)
    main = {name: tensor.to(dtype) for name, tensor in tensors.items() if not name.startswith(_VAE)}
    save_file(main, folder / "model.safetensors")
    return folder


def random_tensors(shapes: Mapping[str, torch.Tensor], *, seed: int, stop: Stop) -> dict[str, torch.Tensor]:
    """A float32 tensor for each of a model's, whose values do not matter. They keep the scale of what flows through."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: _random(name, tuple(like.shape), generator) for name, like in shapes.items()}
    # The stop head sees SiLU(1) in every channel, and compares the sums of its two rows.
    tensors["stop_proj.weight"].zero_()
    tensors["stop_proj.bias"].fill_(1.0)
    tensors["stop_head.weight"][0].fill_(1.0 if stop == "never" else 0.0)
    tensors["stop_head.weight"][1].fill_(0.0 if stop == "never" else 1.0)
    last = max(int(name.split(".")[3]) for name in tensors if name.startswith(f"{_VAE}decoder.model."))
    tensors[f"{_VAE}decoder.model.{last}.weight_g"].fill_(_LOUDNESS)
    return tensors


def _random(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if name.endswith(("norm.weight", "layernorm.weight", "alpha", "scale_embed.weight")):
        return torch.ones(shape)
    if name.endswith("weight_g"):
        return torch.full(shape, _GAIN)
    if name.endswith(("bias", "bias_embed.weight")):
        return torch.zeros(shape)
    size = math.prod(shape)
    values = torch.randn(min(size, _BLOCK), generator=generator)
    fan_in = 1 if "embed" in name or "token" in name else max(1, math.prod(shape[1:]))
    return values.repeat(-(-size // _BLOCK))[:size].reshape(shape) / math.sqrt(fan_in)


def write_tokenizer(folder: Path) -> None:
    """A byte-fallback BPE of the Llama kind that knows a few words, with the library's markers in their places."""
    pieces = ["<unk>", "<s>", "</s>"]
    pieces += [_MARKERS.get(number, f"<|reserved_{number}|>") for number in range(3, 105)]
    specials = list(pieces)
    pieces += [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["▁", *_LETTERS]
    merges: list[tuple[str, str]] = []
    for word in _WORDS:
        known = "▁"
        for letter in word:
            if (known, letter) not in merges:
                merges.append((known, letter))
                pieces.append(known + letter)
            known += letter
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: number for number, piece in enumerate(pieces)},
            merges=merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
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
