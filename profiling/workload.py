"""How much work the engines' operations are: bytes that must be read, floating-point operations, counted from the names
and shapes of a model's weights.

Every weight is read once by an operation, however many rows it is multiplied with, and by each of its serial steps.
Activations are not counted: they stay in the processor's caches.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log2, prod

_FLOPS = 2  # of one weight and one row: a product and a sum
_NEIGHBOURS = re.compile(r"encoder\.layers\.\d+\.self_attn\.linear_(k|v|pos)\.weight")
_UPSAMPLING = re.compile(r"decoder\.model\.\d+\.block\.1\.weight_v")


@dataclass(frozen=True, slots=True)
class Work:
    """`bytes` to be read from memory and `flops` to be computed."""

    bytes: float = 0
    flops: float = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.bytes + other.bytes, self.flops + other.flops)

    def __mul__(self, times: float) -> "Work":
        return Work(self.bytes * times, self.flops * times)


@dataclass(frozen=True)
class Weight:
    """A tensor of a model: its name, its shape in the library's order, the bytes of one element."""

    name: str
    shape: tuple[int, ...]
    element_bytes: float

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> float:
        return self.elements * self.element_bytes


def named(weights: Iterable[Weight], *prefixes: str) -> list[Weight]:
    """Those whose name begins with one of the prefixes."""
    return [weight for weight in weights if weight.name.startswith(prefixes)]


def applied(weights: Iterable[Weight], rows: float | Callable[[Weight], float] = 1) -> Work:
    """All weights read once, the matrices among them multiplied with so many rows each."""
    total = Work()
    for weight in weights:
        count = rows(weight) if callable(rows) else rows
        total += Work(weight.bytes, _FLOPS * weight.elements * count if len(weight.shape) > 1 else 0)
    return total


def attention(
    queries: int, keys: int, *, heads: int, kv_heads: int, head_size: int, element_bytes: float, layers: int = 1
) -> Work:
    """Scores and weighted sums of `queries` over `keys` positions; keys and values are read once."""
    read = 2 * keys * kv_heads * head_size * element_bytes
    return Work(read, 2 * _FLOPS * queries * keys * heads * head_size) * layers


# Language models


def decode_step(weight_bytes: float, kv_bytes: float, parameters: float) -> Work:
    """One token: every parameter that it uses (the output head among them) and its share of the KV cache, once."""
    return Work(weight_bytes + kv_bytes, _FLOPS * parameters)


def prefill(weight_bytes: float, parameters: float, tokens: int, batch_tokens: int) -> Work:
    """A prompt: two operations per token and parameter (embeddings not counted); the weights are read by each batch."""
    return Work(weight_bytes * -(-tokens // batch_tokens), _FLOPS * parameters * tokens)


# A cache-aware FastConformer transducer (NeMo)


@dataclass(frozen=True)
class StreamingPass:
    """One chunk: `frames` come out of it, for which `features` feature frames of `mel_bands` go in, look-back included;
    attention reaches back over `cached` frames; `tokens` are emitted."""

    frames: int
    features: int
    mel_bands: int
    cached: int
    tokens: float


def mel_features(frames: int, fft: int, mel_bands: int) -> Work:
    """A Fourier transform (5 N log2 N operations) and a matrix of mel filters for each frame."""
    transform = 5 * fft * log2(fft)
    return Work(0, frames * (transform + _FLOPS * mel_bands * (fft // 2 + 1)))


def fastconformer_encoder(weights: Sequence[Weight], size: StreamingPass) -> Work:
    """Subsampling, layers and, where there is one, the language prompt.

    The cache holds the inputs of the layers, so that keys and values of all cached frames are projected anew by every
    pass, and as many positions to either side.
    """
    reached = size.cached + size.frames

    def rows(weight: Weight) -> float:
        match = _NEIGHBOURS.fullmatch(weight.name)
        if match is None:
            return size.frames
        return 2 * reached - 1 if match[1] == "pos" else reached

    subsampling = named(weights, "encoder.pre_encode.")
    layers = named(weights, "encoder.layers.", "prompt_kernel.")
    heads = next((weight.shape[0] for weight in weights if weight.name.endswith("pos_bias_u")), 0)
    width = next((weight.shape[0] for weight in weights if weight.name.endswith("linear_q.weight")), 0)
    depth = sum(weight.name.endswith("linear_q.weight") for weight in layers)
    scores = attention(
        size.frames, reached, heads=heads, kv_heads=heads, head_size=width // max(1, heads), element_bytes=0
    ) + Work(0, _FLOPS * size.frames * (2 * reached - 1) * width)  # over the positions too
    return _subsampled(subsampling, size) + applied(layers, rows) + scores * depth


def _subsampled(weights: Sequence[Weight], size: StreamingPass) -> Work:
    """Convolutions over time and mel bands, each of those with a 3 x 3 kernel halving both, then one matrix."""
    total, times, bands = Work(), size.features, size.mel_bands
    for weight in weights:
        if len(weight.shape) == 4 and weight.shape[-1] > 1:
            times, bands = times // 2 + 1, bands // 2 + 1
        total += applied([weight], times * bands if len(weight.shape) == 4 else times)
    return total


def transducer_decoder(weights: Sequence[Weight], size: StreamingPass) -> Work:
    """Greedy decoding, one step after another: the prediction network for every token and once more, the joint network
    for every token and once per frame; each of these steps reads its weights."""
    embedding = named(weights, "decoder.prediction.embed")
    rows_read = Work(sum(weight.shape[-1] * weight.element_bytes for weight in embedding)) * (size.tokens + 1)
    predicted = applied(named(weights, "decoder.prediction.dec_rnn", "joint.pred")) * (size.tokens + 1)
    joined = applied(named(weights, "joint.joint_net")) * (size.frames + size.tokens)
    return rows_read + predicted + joined + applied(named(weights, "joint.enc"), size.frames)


# VoxCPM2


@dataclass(frozen=True)
class VoxCpmSize:
    """What the shapes of the weights do not tell. `kv_positions` is the length of the KV caches, which every step scans
    whole; a patch is `patch_frames` latent frames; `guided` sequences go through the diffusion module at once."""

    heads: int
    kv_heads: int
    head_size: int
    layers: int
    residual_layers: int
    kv_positions: int
    patch_frames: int
    guided: int = 2


_DIFFUSION_TOKENS = 3  # beside the patch before and the patch at hand: two hidden states and the time
_ENCODER_TOKENS = 1  # beside the patch: the one whose output is used


def voxcpm_patch(weights: Sequence[Weight], size: VoxCpmSize, forwards: int) -> dict[str, Work]:
    """By part, one patch after the first (which has no stop check and no step of the language models)."""

    def step(prefix: str, layers: int) -> Work:
        scan = attention(
            1,
            size.kv_positions,
            heads=size.heads,
            kv_heads=size.kv_heads,
            head_size=size.head_size,
            element_bytes=_element_bytes(weights),
            layers=layers,
        )
        return applied(named(weights, f"{prefix}.layers.")) + scan

    def diffused(weight: Weight) -> float:
        rows = 2 * size.patch_frames + _DIFFUSION_TOKENS if ".layers." in weight.name else size.patch_frames
        return size.guided * (1 if "time_mlp." in weight.name else rows)

    return {
        "stop_check": applied(named(weights, "stop_")),
        "base_lm": step("base_lm", size.layers) + applied(named(weights, "fsq_layer.", "fusion_concat_proj.")),
        "residual_lm": step("residual_lm", size.residual_layers),
        "diffusion": applied(named(weights, "feat_decoder."), diffused) * forwards
        + applied(named(weights, "lm_to_dit_proj.", "res_to_dit_proj.")),
        "local_encoder": _local_encoder(weights, size, 1),
        "vae": _vae_decoder(named(weights, "audio_vae.decoder."), size.patch_frames),
    }


def voxcpm_prefill(weights: Sequence[Weight], size: VoxCpmSize, tokens: int) -> Work:
    """Both language models over the tokens of the text; the local encoder too goes over each, whose sound is empty."""
    rows = named(weights, "base_lm.layers.", "residual_lm.layers.", "fsq_layer.", "fusion_concat_proj.")
    return applied(rows, tokens) + _local_encoder(weights, size, tokens)


def _local_encoder(weights: Sequence[Weight], size: VoxCpmSize, patches: int) -> Work:
    def encoded(weight: Weight) -> float:
        return patches * (size.patch_frames + (_ENCODER_TOKENS if ".layers." in weight.name else 0))

    return applied(named(weights, "feat_encoder."), encoded) + applied(named(weights, "enc_to_lm_proj."), patches)


def _vae_decoder(weights: Sequence[Weight], frames: int) -> Work:
    """Convolutions over time; a transposed one, whose kernel is twice its stride, makes the sequence longer."""
    total, times = Work(), frames
    for weight in weights:
        total += applied([weight], times if weight.name.endswith(".weight_v") else 0)
        if _UPSAMPLING.search(weight.name):
            times *= weight.shape[2] // 2
    return total


def _element_bytes(weights: Sequence[Weight]) -> float:
    return next((weight.element_bytes for weight in weights if weight.name.startswith("base_lm.layers.")), 0)
