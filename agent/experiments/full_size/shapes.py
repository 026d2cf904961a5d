"""The sizes of the three big models as published; tests pass smaller ones through the same code."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class NemotronShape:
    """A FastConformer transducer with language prompts: `layers` of `width`, an LSTM predictor, `tokens` pieces."""

    layers: int = 24
    width: int = 1024
    heads: int = 8
    subsampling_channels: int = 256
    prediction_width: int = 640
    joint_width: int = 640
    tokens: int = 13_087


@dataclass(frozen=True)
class GemmaShape:
    """Every `period`-th layer attends to everything, the others to `window` tokens."""

    layers: int = 48
    period: int = 6
    width: int = 3840
    feed_forward: int = 15_360
    heads: int = 16
    local_kv_heads: int = 8
    local_head: int = 256
    global_kv_heads: int = 1
    global_head: int = 512
    window: int = 1024
    context: int = 131_072
    vocabulary: int = 262_144

    @property
    def local(self) -> list[bool]:
        return [layer % self.period != self.period - 1 for layer in range(self.layers)]


@dataclass(frozen=True)
class VoxCpmShape:
    """Two language models of `width`, a local encoder and a diffusion module of `local_width`, a VAE."""

    width: int = 2048
    feed_forward: int = 6144
    heads: int = 16
    kv_heads: int = 2
    head: int = 128
    layers: int = 28
    residual_layers: int = 8
    local_width: int = 1024
    local_feed_forward: int = 4096
    local_heads: int = 16
    local_layers: int = 12
    quantizer_width: int = 512
    vae_encoder_width: int = 128
    vae_decoder_width: int = 2048
    vocabulary: int = 73_448
    kv_positions: int = 8192
    dtype: Literal["bfloat16", "float32"] = "bfloat16"


@dataclass(frozen=True)
class Shapes:
    asr: NemotronShape = field(default_factory=NemotronShape)
    llm: GemmaShape = field(default_factory=GemmaShape)
    tts: VoxCpmShape = field(default_factory=VoxCpmShape)


FULL_SIZE = Shapes()
