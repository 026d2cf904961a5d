"""What is undone however the process is left, unless it is killed: temporary folders, servers that were started."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_open: list[Callable[[], object]] = []


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """`undo` is called when the block ends, or by `undo_all`."""
    _open.append(undo)
    try:
        yield
    finally:
        undo()
        _open.remove(undo)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder in the system's temporary folder, which TMPDIR names. Raises OSError, FileNotFoundError where there
    is no such folder with room."""
    folder = Path(tempfile.mkdtemp(prefix="turnscope-"))
    with undone(lambda: _remove(folder)):
        yield folder


def undo_all() -> None:
    """For a process that ends at once, in the midst of what its other threads do. What was begun last goes first."""
    for undo in reversed(_open):
        undo()


def _remove(folder: Path) -> None:
    """Under another name first, so that no file is put there meanwhile."""
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
