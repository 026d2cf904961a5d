"""The folder in the user's cache that all checkouts on a machine share, and locks on what lies in it.

Standard library only: set-up uses it before anything is installed.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return Turnscope's folder under $XDG_CACHE_HOME, or under ~/.cache where that is unset or not absolute."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "turnscope"


@contextmanager
def exclusive(lock_file: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `lock_file`, created if absent, across processes; `on_wait` is called first if another holds it.

    A child process started with close_fds=False inherits the lock and keeps it until it ends too, so what it works on
    stays guarded when this process is killed. The file stays: deleting it would let two processes lock two different
    files of one name. Raises OSError.
    """
    with _opened(lock_file) as lock:
        if not _try_lock(lock):
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock, True)
        yield


@contextmanager
def try_exclusive(lock_file: Path) -> Iterator[bool]:
    """Hold the lock of `lock_file` and yield True, or yield False at once when another process holds it."""
    with _opened(lock_file) as lock:
        yield _try_lock(lock)


@contextmanager
def _opened(lock_file: Path) -> Iterator[int]:
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield lock
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
