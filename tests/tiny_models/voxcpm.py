"""Tiny VoxCPM2 checkpoints with random weights, made by what makes those of full size."""

from pathlib import Path
from typing import Literal

from safetensors.torch import load_file, save_file

from agent.experiments.full_size import voxcpm_folder
from agent.experiments.full_size.shapes import VoxCpmShape

Stop = Literal["at once", "never"]

PATCH_SAMPLES = 7680
SAMPLE_RATE = 48_000
EARLIEST_END = 4  # patches: the library heeds the stop head from then on
_MAIN = "model.safetensors"

TINY = VoxCpmShape(
    width=64,
    feed_forward=128,
    heads=4,
    kv_heads=2,
    head=16,
    layers=3,
    residual_layers=2,
    local_width=64,
    local_feed_forward=128,
    local_heads=4,
    local_layers=2,
    quantizer_width=32,
    vae_encoder_width=8,
    vae_decoder_width=64,
    vocabulary=2048,
    kv_positions=512,
    dtype="float32",
)


def write_voxcpm(folder: Path, shape: VoxCpmShape = TINY, *, stop: Stop = "at once") -> Path:
    """Write a checkpoint into `folder` and return it.

    With `stop` "at once" a phrase ends at the earliest patch at which it may, the fourth; with "never" at the
    library's own cap, 6 patches per text token and 10 more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    voxcpm_folder.write(folder, shape)
    if stop == "at once":
        tensors = load_file(folder / _MAIN)
        tensors["stop_head.weight"] = tensors["stop_head.weight"].flip(0).contiguous()
        save_file(tensors, folder / _MAIN)
    return folder
