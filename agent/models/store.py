"""Where finished models lie, and whether they are whole.

    <cache>/models/NAME-KEY/            a finished model, moved here in one step, with its record in files.json
    <cache>/models/.unfinished/NAME-KEY/    one being made; what a fetch that died left is cleared by a later one
    <cache>/models/.unfinished/NAME-KEY.lock

A key names the content, so checkouts that want different versions of a model do not disturb each other.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from agent.errors import TurnscopeError
from agent.models.manifest import Model
from agent.models.verified import sha256_of
from agent.user_cache import cache_folder

_RECORD = "files.json"


@dataclass(frozen=True)
class StoredFile:
    """What a file of a finished model must be."""

    size_bytes: int
    sha256: str


def models_folder() -> Path:
    return cache_folder() / "models"


def folder_of(model: Model) -> Path:
    return models_folder() / f"{model.name}-{model.key}"


def workshops_folder() -> Path:
    return models_folder() / ".unfinished"


def workshop_of(model: Model) -> Path:
    """Return the folder in which `model` is made."""
    return workshops_folder() / f"{model.name}-{model.key}"


def write_record(folder: Path) -> None:
    """Record the size and SHA-256 of every file in `folder`, in a file beside them."""
    record = {
        path.name: {"size_bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in sorted(folder.iterdir())
    }
    (folder / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def read_record(model: Model) -> dict[str, StoredFile] | None:
    """Return what the files of `model` must be, by file name; None when it is not there or its record is unreadable."""
    try:
        record = json.loads((folder_of(model) / _RECORD).read_text(encoding="utf-8"))
        return {name: StoredFile(**file) for name, file in record.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def damage(model: Model, read_everything: bool = False) -> str | None:
    """Say what is wrong with the stored files of `model`, None if nothing is; sizes only unless `read_everything`."""
    record = read_record(model)
    if record is None:
        return "its record of files is missing"
    for name, expected in record.items():
        path = folder_of(model) / name
        size_bytes = path.stat().st_size if path.is_file() else None
        if size_bytes is None:
            return f"{name} is missing"
        if size_bytes != expected.size_bytes:
            return f"{name} has {size_bytes} bytes instead of {expected.size_bytes}"
        if read_everything and sha256_of(path) != expected.sha256:
            return f"the content of {name} has changed"
    return None


def locate(model: Model) -> Path:
    """Return the folder of a fetched model. Raises TurnscopeError when it is absent or damaged."""
    folder = folder_of(model)
    fetch = f"`turnscope models fetch {model.name}`"
    if not folder.is_dir():
        raise TurnscopeError(f"The model {model.name} is not on this machine yet: run {fetch}.")
    if problem := damage(model):
        raise TurnscopeError(f"The model {model.name} is damaged ({problem}): run {fetch} to fetch it again.")
    return folder
