from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.models import manifest
from tests.models.store_in import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """An empty store, manifest and package index that take the place of the real ones."""
    sandbox = Sandbox(tmp_path)
    sandbox.wheels.mkdir()
    sandbox.manifest.write_text("model = []")
    for name, value in sandbox.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(manifest, "MANIFEST_FILE", sandbox.manifest)
    manifest.models.cache_clear()
    yield sandbox
    manifest.models.cache_clear()
