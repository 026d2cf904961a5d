"""Calibrations in the user's cache: one for each machine and for all that changes what is measured."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from agent.engine_choice import places
from agent.errors import TurnscopeError
from agent.settings import Settings
from agent.user_cache import cache_folder
from profiling.calibration import FORMAT, Calibration
from profiling.environment import BIG_LIBRARIES, LIBRARIES, Machine, versions_of
from profiling.whole_file import write_whole

_OF_ASR = ("model", "chunk_ms", "language", "mode", "threads")
_NOT_OF_LLM = ("thinking_tokens", "max_tokens", "system_prompt", "api_key", "temperature", "seed")


def measured_settings(settings: Settings) -> dict[str, object]:
    """What of the settings (with a model for every stage) changes how long an engine takes."""
    told = settings.model_dump(mode="json", include={"asr", "llm", "tts"})
    at = places(settings)
    return {
        "asr": {name: told["asr"][name] for name in _OF_ASR} | {"device": at.asr},
        "llm": {name: value for name, value in told["llm"].items() if name not in _NOT_OF_LLM} | {"device": at.llm},
        "tts": {name: value for name, value in told["tts"].items() if name != "seed"} | {"device": at.tts},
    }


def find(settings: Settings) -> Calibration | None:
    """The stored one for these settings on this machine; None when there is none that can be read."""
    with suppress(OSError, ValidationError):
        found = Calibration.model_validate_json(_path(settings).read_bytes())
        return found if found.format == FORMAT else None
    return None


def keep(settings: Settings, calibration: Calibration) -> Path:
    """Store it, whole or not at all. Raises TurnscopeError."""
    path = _path(settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, calibration.model_dump_json() + "\n")
    except OSError as error:
        raise TurnscopeError(
            f"The calibration cannot be kept in {path.parent} ({error.strerror}): free some space, or point "
            "XDG_CACHE_HOME at another folder."
        ) from error
    return path


def _path(settings: Settings) -> Path:
    key = {
        "machine": Machine.this().model_dump(),
        "versions": versions_of((*LIBRARIES[1:], *BIG_LIBRARIES)),
        "settings": measured_settings(settings),
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "calibrations" / f"{digest}.json"
