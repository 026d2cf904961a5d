"""The experiment at a tiny scale: the same code, shapes of a few thousand parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.shapes import GemmaShape, NemotronShape, Shapes
from agent.user_cache import cache_folder
from profiling.machine import Probe
from tests.tiny_models.voxcpm import TINY

ASR = NemotronShape(
    layers=3, width=64, heads=4, subsampling_channels=16, prediction_width=64, joint_width=64, tokens=200
)
LLM = GemmaShape(
    layers=6, period=3, width=64, feed_forward=128, heads=4, local_kv_heads=2, local_head=32, global_head=64, window=32,
    context=1024, vocabulary=0,
)  # fmt: skip
TTS = replace(TINY, layers=4, residual_layers=3, local_layers=3, vae_decoder_width=256)
SHAPES = Shapes(ASR, LLM, TTS)
EFFORT = Effort(
    asr_streams=1,
    asr_passes=2,
    llm_prompts=((16, 2), (40, 1)),
    llm_tokens=6,
    tts_steps=(6, 4),
    tts_patches=(2, 3),
    tts_checked=1,
    turn_tokens=12,
    turn_steps=4,
    ceiling_repetitions=1,
    probe=Probe(1 << 20, (256, 256), 32),
)


@dataclass(frozen=True)
class Cache:
    folder: Path

    @property
    def made(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "turnscope" / "full-size").glob("*"))


@contextmanager
def own_cache(folder: Path) -> Iterator[Cache]:
    """A user's cache in `folder`, with the models of the real one."""
    models = cache_folder() / "models"
    (folder / "turnscope").mkdir(parents=True)
    (folder / "turnscope" / "models").symlink_to(models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield Cache(folder)
