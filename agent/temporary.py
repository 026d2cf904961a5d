"""Temporary folders that are gone however the process is left, unless it is killed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_open: set[Path] = set()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder in the system's temporary folder, which TMPDIR names. Raises OSError, FileNotFoundError where there
    is no such folder with room."""
    folder = Path(tempfile.mkdtemp(prefix="turnscope-"))
    _open.add(folder)
    try:
        yield folder
    finally:
        _remove(folder)
        _open.discard(folder)


def remove_all() -> None:
    """For a process that ends at once, in the midst of what its other threads do."""
    for folder in tuple(_open):
        _remove(folder)


def _remove(folder: Path) -> None:
    """Under another name first, so that no file is put there meanwhile."""
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
