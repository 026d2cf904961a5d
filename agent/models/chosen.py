"""Where the models lie that settings (with a model for every stage) name: at the paths that they give, or in the store.

Each raises TurnscopeError like `models.locate`, and for what no engine can run.
"""

from pathlib import Path

from agent import models
from agent.engine_choice import choose
from agent.settings import Settings

NEMO_FILE, GGUF_FILE = "model.nemo", "model.gguf"  # in the store


def asr_model(settings: Settings) -> Path:
    """Nemotron's .nemo file, or Moonshine's folder."""
    choice = choose(settings)
    if choice.asr_path is not None:
        return choice.asr_path
    folder = models.locate(str(settings.asr.model))
    return folder / NEMO_FILE if choice.asr == "nemotron" else folder


def llm_file(settings: Settings) -> Path:
    """The GGUF file; the model is no server's."""
    return choose(settings).llm_path or models.locate(str(settings.llm.model)) / GGUF_FILE


def tts_folder(settings: Settings) -> Path:
    """Of VoxCPM2's checkpoint, or of Piper's voice."""
    return choose(settings).tts_path or models.locate(str(settings.tts.model))
