"""Counted work in the user's cache: counting runs the graphs, which takes a second or two."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import onnxruntime
from pydantic import TypeAdapter, ValidationError

from agent.user_cache import cache_folder
from profiling.whole_file import write_whole
from profiling.work_book import OperationWork

_VERSION = 1  # of the counting
_KIND = TypeAdapter(dict[str, OperationWork])


def kept(
    folder: Path, settings: Mapping[str, float], make: Callable[[], dict[str, OperationWork]]
) -> dict[str, OperationWork]:
    """What `make` counts in the model of a folder; what was counted before of the same files, where that is kept. A
    cache that cannot be read or written is passed over."""
    files = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.glob("*.onnx"))
    key = json.dumps([_VERSION, onnxruntime.__version__, str(folder), files, sorted(settings.items())])
    path = cache_folder() / "work" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with suppress(OSError, ValidationError):
        return _KIND.validate_json(path.read_bytes())
    made = make()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _KIND.dump_json(made).decode())
    return made
