"""The folder of a recorded conversation: its name, and the files of a scenario in it."""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.errors import TurnscopeError
from agent.scenario import RECORDINGS, bundled
from agent.scenario_file import FILE_NAME, ScenarioTable
from agent.settings import Settings, recorded
from agent.toml_text import toml

SETTINGS_FILE = "settings.toml"
_NAME = re.compile(r"\w[\w-]{0,59}")  # at most 240 bytes as UTF-8
Write = Callable[[Path, bytes], None]


def new_recording(name: str, parent: Path = RECORDINGS) -> Path:
    """Make the folder `parent`/`name`, unless it is there and empty. Raises TurnscopeError where the name will not do,
    is taken, or the folder cannot be made."""
    if not _NAME.fullmatch(name):
        raise TurnscopeError(
            f"A recording cannot be named {name[:80]!r}: use up to 60 letters, digits, - and _, and begin with no -."
        )
    if name in bundled():
        raise TurnscopeError(f"{name} is the name of a bundled scenario: give the recording another.")
    folder = parent / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise TurnscopeError(
            f"The folder {folder} cannot be made ({error.strerror or error}): go to a folder where it can."
        ) from None
    if taken:
        raise TurnscopeError(f"{folder} exists already: give the recording another name.")
    return folder


class RecordingFolder:
    """Writes a scenario's files, each as a whole or not at all: `write` sees to that. All raise OSError."""

    def __init__(self, folder: Path, write: Write):
        self.folder = folder
        self._write = write
        self._written: dict[str, bytes] = {}  # SHA-256 by name

    def write_settings(self, settings: Settings) -> None:
        """For `turnscope replay --config`, as far as a run's folder tells them; without the key of a server."""
        tree = recorded(settings)
        tree["llm"].pop("api_key", None)
        self._put(SETTINGS_FILE, toml(tree).encode())

    def write_sound(self, name: str, samples: NDArray[np.float32]) -> None:
        """float32 (n,) at 16 kHz, as a WAV file of 16-bit integers."""
        file = io.BytesIO()
        soundfile.write(file, np.clip(samples, -1, 1), CAPTURE_RATE_HZ, subtype="PCM_16", format="WAV")
        self._put(name, file.getvalue())

    def write_scenario(self, table: ScenarioTable) -> None:
        self._put(FILE_NAME, toml(table.model_dump()).encode())

    def remove_if_empty(self) -> None:
        """Nothing was recorded: the name is free again."""
        if not self._written:
            self.folder.rmdir()

    def _put(self, name: str, data: bytes) -> None:
        digest = hashlib.sha256(data).digest()
        if self._written.get(name) != digest:
            self._write(self.folder / name, data)
            self._written[name] = digest
