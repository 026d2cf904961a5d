"""A model store and a package index of the tests' own, in a temporary folder."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.models.manifest import models

WEIGHTS = bytes(range(256)) * 4096


def promise(path: str, name: str, content: bytes, **more: Any) -> dict[str, Any]:
    """The manifest's entry for a file with this content."""
    size_bytes = more.pop("size_bytes", len(content))
    sha256 = more.pop("sha256", hashlib.sha256(content).hexdigest())
    return {"path": path, "name": name, "sha256": sha256, "size_bytes": size_bytes, **more}


@dataclass
class Sandbox:
    """What to fetch and from where. `environment` makes a child process use it: only this index, only this cache."""

    root: Path
    models: list[dict[str, Any]] = field(default_factory=list)

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.toml"

    @property
    def wheels(self) -> Path:
        return self.root / "index"

    @property
    def store(self) -> Path:
        return self.root / "cache" / "turnscope" / "models"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_CACHE_DIR": "1",
        }

    def add(self, name: str, source: Mapping[str, str], files: list[dict[str, Any]], **more: Any) -> None:
        """Add a model to the manifest."""
        facts: dict[str, Any] = {
            "name": name,
            "stage": "vad",
            "description": "a test's",
            "licence": "MIT",
            "download_bytes": sum(file["size_bytes"] for file in files),
            "stored_bytes": sum(file["size_bytes"] for file in files),
            "scratch_bytes": 10_000,
        }
        self.models.append(facts | more | {"source": dict(source), "files": files})
        self.manifest.write_text("".join(_toml(model) for model in self.models), encoding="utf-8")
        models.cache_clear()

    def add_wheel_model(self, name: str, content: bytes = WEIGHTS, **more: Any) -> Path:
        """Add a model of one file, weights.bin, and the wheel that brings it. Returns the wheel."""
        package = f"wheel-of-{name}"
        files = [promise("data/weights.bin", "weights.bin", content, **more.pop("promised", {}))]
        self.add(name, {"kind": "wheel", "package": package, "version": "1.0"}, files, **more)
        return write_wheel(self.wheels, package, {"data/weights.bin": content})

    def left_over(self) -> list[str]:
        """What lies in the store beside finished models and locks."""
        return sorted(path.name for path in (self.store / ".unfinished").glob("*") if path.suffix != ".lock")

    def start_fetch(self, *names: str, before: str = "") -> subprocess.Popen[str]:
        """Fetch in another process, after running the Python code `before` there; its output is on its pipes."""
        code = (
            "from pathlib import Path\nfrom rich.console import Console\nfrom agent.models import fetch, manifest\n"
            f"manifest.MANIFEST_FILE = Path({str(self.manifest)!r})\n{before}\nfetch({list(names)!r}, Console())\n"
        )
        pipe = subprocess.PIPE
        environment = os.environ | self.environment
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
        )


def write_wheel(folder: Path, package: str, files: Mapping[str, bytes], version: str = "1.0") -> Path:
    """Write a wheel with these files, stored without compression."""
    folder.mkdir(exist_ok=True)
    name = package.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        for path, text in (("METADATA", metadata), ("WHEEL", tags), ("RECORD", "")):
            archive.writestr(f"{info}/{path}", text)
    return wheel


def _toml(model: Mapping[str, Any]) -> str:
    lines = ["[[model]]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in model.items() if key not in ("source", "files")]
    lines += ["[model.source]", *(f"{key} = {json.dumps(value)}" for key, value in model["source"].items())]
    for file in model["files"]:
        lines += ["[[model.files]]", *(f"{key} = {json.dumps(value)}" for key, value in file.items())]
    return "\n".join([*lines, ""])
