"""Files that are there as a whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: str | bytes) -> None:
    """Write beside the file (text as UTF-8), then put it into its place; what is not finished is removed. Raises
    OSError."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
