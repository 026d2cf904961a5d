"""Which engines can run here: each needs libraries that the default set-up does not bring."""

import importlib.util

from agent import devices

ASR, LLM, TTS, TURN = "asr", "llm", "tts", "turn"
ENGINES = (ASR, LLM, TTS)
NAMES = {ASR: "the recogniser", LLM: "the language model", TTS: "the voice", TURN: "the scripted turn"}
_PACKAGES = {ASR: ("nemo", "torch"), LLM: ("gguf",), TTS: ("torch", "voxcpm")}


def why_not(engine: str, device: str) -> str | None:
    """The sentence that names what an engine lacks; None when it can run. On a GPU PyTorch measures the ceilings."""
    needed = sorted({*_PACKAGES[engine], *(() if device == devices.CPU else ("torch",))})
    missing = [package for package in needed if not is_installed(package)]
    if not missing:
        return None
    are, bring = ("is", "brings it") if len(missing) == 1 else ("are", "brings them")
    return f"{' and '.join(missing)} {are} not installed: {NAMES[engine]} is passed over; `make setup-gpu` {bring}."


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
