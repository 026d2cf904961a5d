"""A voice that diffuses: VoxCPM2 with random weights, small enough for two cores, large enough for a step to be told
from a patch."""

from dataclasses import replace
from pathlib import Path

from agent.tts.voxcpm import VoxCpmEngine
from profiling.trace.clock import Clock
from tests.tiny_models.voxcpm import TINY, write_voxcpm

_SHAPE = replace(TINY, local_width=256, local_feed_forward=1024, local_heads=8, local_layers=4)


def diffusing_voice(folder: Path, clock: Clock, diffusion_steps: int) -> VoxCpmEngine:
    """Written into `folder`, loaded and warmed up."""
    voice = VoxCpmEngine(
        write_voxcpm(folder, _SHAPE), device="cpu", threads=1, diffusion_steps=diffusion_steps, clock=clock
    )
    voice.warm_up()
    return voice
