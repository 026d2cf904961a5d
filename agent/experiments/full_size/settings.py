"""Where the engines run, and the settings by which the pipeline's own code loads the made files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent import devices
from agent.experiments.full_size.effort import Effort
from agent.llm.context import BATCH_TOKENS_ON_CPU, BATCH_TOKENS_ON_GPU
from agent.settings import Settings, load
from profiling.trace.clock import Clock

if TYPE_CHECKING:
    from agent.llm.llama import LlamaEngine


@dataclass(frozen=True)
class Placed:
    """An engine's device, and its threads where that is the CPU."""

    device: str
    threads: int

    @property
    def batch_tokens(self) -> int:
        return BATCH_TOKENS_ON_CPU if self.device == devices.CPU else BATCH_TOKENS_ON_GPU

    @property
    def gpu_layers(self) -> int | None:
        return 0 if self.device == devices.CPU else None


def load_llama(path: Path, placed: Placed, clock: Clock) -> "LlamaEngine":
    """On the calling thread, cold."""
    from agent.llm.llama import LlamaEngine

    return LlamaEngine(
        path,
        clock=clock,
        threads=placed.threads,
        prefill_threads=placed.threads,
        batch_tokens=placed.batch_tokens,
        gpu_layers=placed.gpu_layers,
        main_gpu=devices.number(placed.device),
    )


def pipeline_settings(asr: Path, llm: Path, tts: Path, placed: Placed, llm_placed: Placed, effort: Effort) -> Settings:
    """All engines with every core, as each was measured alone."""
    return load(
        flags={
            "device": placed.device,
            "asr": {"model": str(asr), "threads": placed.threads},
            "llm": {
                "model": str(llm),
                "threads": llm_placed.threads,
                "prefill_threads": llm_placed.threads,
                "batch_tokens": llm_placed.batch_tokens,
                "gpu_layers": llm_placed.gpu_layers,
                "max_tokens": effort.turn_tokens,
            },
            "tts": {
                "model": str(tts),
                "threads": placed.threads,
                "max_patches": effort.turn_patches,
                "diffusion_steps": effort.turn_steps,
            },
        }
    )
