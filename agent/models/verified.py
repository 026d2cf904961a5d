"""Refusing whatever is not the file that the manifest promises."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from agent.errors import TurnscopeError
from agent.models.manifest import Model, SourceFile

BLOCK_BYTES = 1 << 20

OnProgress = Callable[[int, int], None]
"""Gets bytes done and bytes in total."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(model: Model, file: SourceFile, path: Path) -> None:
    """Make sure that `path` holds what the manifest promises as `file`; else delete it and raise TurnscopeError."""
    if path.stat().st_size == file.size_bytes and sha256_of(path) == file.sha256:
        return
    path.unlink()
    raise TurnscopeError(
        f"What came as {file.path} from {model.source} is not the file that {model.name} needs (its size or SHA-256 is "
        "wrong); it was refused and deleted: check where your downloads come from, then fetch the model again."
    )
