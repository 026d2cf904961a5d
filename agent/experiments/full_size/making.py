"""Made files are kept in the user's cache: each is made once, in a folder that appears when it is complete."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.errors import TurnscopeError
from agent.user_cache import cache_folder, exclusive

_RECORD = "made.json"
_TORCH_WRITES = ("inline_container", "PytorchStreamWriter", "iostream")  # what it names when it writes a file


@dataclass(frozen=True)
class Recipe:
    """What to make: `write` puts files into the folder that it is given. `shape` (a dataclass) and `version`, which
    counts the changes of what `write` does, tell the results of different recipes apart. `size_bytes` is about how much
    it writes, `disk_bytes` the most that it takes on the way."""

    kind: str
    shape: Any
    version: int
    size_bytes: int
    write: Callable[[Path], None]
    disk_bytes: int

    @property
    def folder(self) -> Path:
        told = json.dumps([self.version, asdict(self.shape)], sort_keys=True)
        return cache_folder() / "full-size" / f"{self.kind}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Made:
    """`made_s` is how long it once took; `files` are sizes in bytes by name."""

    folder: Path
    made_s: float
    files: dict[str, int]


def find(recipe: Recipe) -> Made | None:
    """What the recipe made earlier, if it is whole."""
    try:
        record = json.loads((recipe.folder / _RECORD).read_text(encoding="utf-8"))
        made = Made(recipe.folder, record["made_s"], record["files"])
        return made if made.files == _sizes(recipe.folder) else None
    except (OSError, ValueError, KeyError):
        return None


def make(recipe: Recipe, on_wait: Callable[[], None]) -> Made:
    """Find or make; `on_wait` is called first when another process is making it. An interruption leaves nothing behind.

    Raises TurnscopeError when it cannot be stored.
    """
    folder = recipe.folder
    workshop = folder.with_name(f"{folder.name}.unfinished")
    try:
        with exclusive(folder.with_name(f"{folder.name}.lock"), on_wait):
            if (made := find(recipe)) is not None:
                return made
            _clear(workshop)
            _clear(folder)
            try:
                workshop.mkdir(parents=True)
                began_ns = time.monotonic_ns()
                recipe.write(workshop)
                made = Made(folder, (time.monotonic_ns() - began_ns) / 1e9, _sizes(workshop))
                record = {"made_s": made.made_s, "files": made.files}
                (workshop / _RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
                workshop.rename(folder)
            except BaseException:
                _clear(workshop)
                raise
            return made
    except Exception as error:
        if not _is_failed_write(error):
            raise
        reason = (error.strerror or error) if isinstance(error, OSError) else "a write failed"
        raise TurnscopeError(
            f"The files cannot be made in {folder.parent} ({reason}): make that folder writable and roomy or point "
            "XDG_CACHE_HOME at one that is."
        ) from error


def _is_failed_write(error: Exception) -> bool:
    """The system's error, or what PyTorch and safetensors make of it; neither has a type for it."""
    words = str(error)
    return (
        isinstance(error, OSError)
        or (isinstance(error, RuntimeError) and any(name in words for name in _TORCH_WRITES))
        or (type(error).__name__ == "SafetensorError" and "serializing" in words)
    )


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != _RECORD}


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
