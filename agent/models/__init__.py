"""The model store: which model files exist, where they come from, and where they lie on this machine.

Importing this package loads only the standard library; what fetches, converts and prints is loaded when called.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.models import manifest, store
from agent.models.store import StoredFile

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agent.models.table import ModelRow

__all__ = ["StoredFile", "embedded_models", "ensure", "fetch", "list_models", "locate", "models_table", "stored_files"]


def locate(name: str) -> Path:
    """Return the folder of the fetched model `name`. Looks at sizes, not contents, so it takes no time.

    Raises TurnscopeError when there is no such model, or when it is absent or damaged; the sentence says what mends it.
    """
    return store.locate(manifest.find(name))


def stored_files(name: str) -> dict[str, StoredFile]:
    """Return size and SHA-256 of every file of the fetched model `name`, by file name, as recorded when it was made.

    Raises TurnscopeError like `locate`.
    """
    store.locate(manifest.find(name))
    return store.read_record(manifest.find(name)) or {}


def embedded_models() -> tuple[str, ...]:
    """Return the names of the models that the default pipeline needs."""
    return tuple(model.name for model in manifest.models().values() if model.embedded)


def fetch(names: Iterable[str], console: "Console") -> None:
    """Fetch the named models with a progress bar; one that is here is compared with its record and mended if need be.

    Raises TurnscopeError, in one sentence, when one is unknown or cannot be downloaded, verified, converted or stored.
    """
    from agent.models import install

    install.fetch(names, console)


def ensure(names: Iterable[str], console: "Console") -> None:
    """Fetch those of the named models that are absent or damaged; say and do nothing about the others.

    Raises TurnscopeError like `fetch`.
    """
    from agent.models import install

    install.ensure(names, console)


def list_models() -> "list[ModelRow]":
    """Return every known model and whether it is here."""
    from agent.models import table

    return table.list_models()


def models_table() -> "Table":
    """Return what `list_models` says as a table to print."""
    from agent.models import table

    return table.models_table()
