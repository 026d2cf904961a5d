"""Running a converter in a child process."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import agent
from agent.errors import TurnscopeError
from agent.models.convert import CONVERTER_NEEDS
from agent.models.manifest import Model

_CODE_FOLDER = Path(next(iter(agent.__path__))).parent


def check_needs(model: Model) -> None:
    """Raise TurnscopeError when a module that the converter of `model` imports is not installed."""
    missing = (
        [name for name in CONVERTER_NEEDS[model.convert] if not importlib.util.find_spec(name)] if model.convert else []
    )
    if missing:
        raise TurnscopeError(
            f"Converting {model.name} needs {' and '.join(missing)}, which is not installed: "
            "`pip install 'turnscope[cpu]'` brings it."
        )


def run_converter(model: Model, source: Path, target: Path) -> Iterator[tuple[int, int, str]]:
    """Convert `model` from the folder `source` into the folder `target`; yield (done, total, what now) as it goes on.

    Temporary files of the libraries lie in `source`. Raises TurnscopeError with the child's last words.
    """
    search_path = os.pathsep.join(filter(None, [str(_CODE_FOLDER), os.environ.get("PYTHONPATH")]))
    settings = {"PYTHONPATH": search_path, "TMPDIR": str(source), "ORT_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-P", "-m", "agent.models.convert", str(model.convert), str(source), str(target)]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", dir=source) as said,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=said,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ | settings,
            close_fds=False,  # the child keeps the model's lock until it too has ended
        ) as child,
    ):
        try:
            for line in child.stdout or ():
                done, total, text = line.rstrip().split(" ", 2)
                yield int(done), int(total), text
        except BaseException:
            child.terminate()
            raise
        status = child.wait()
        said.seek(0)
        last_words = said.read().strip().splitlines()[-1:] or ["it said nothing"]
    if status < 0:
        raise TurnscopeError(
            f"The conversion of {model.name} was ended by signal {-status}, perhaps for want of memory: "
            "close other programs and fetch it again."
        )
    if status > 0:
        raise TurnscopeError(
            f"{model.name} could not be converted ({last_words[0]}): "
            "run `make setup` for the library versions this was made for, then fetch it again."
        )
