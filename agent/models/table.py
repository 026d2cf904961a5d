"""The list of models as rows and as a table for the terminal."""

from dataclasses import dataclass

from rich.filesize import decimal
from rich.table import Table

from agent.models.manifest import Stage, models
from agent.models.store import damage, folder_of


@dataclass(frozen=True)
class ModelRow:
    """One model of the manifest. `present` is "yes", "no" or "damaged"; `source` says in words where it comes from."""

    name: str
    stage: Stage
    description: str
    licence: str
    size_bytes: int
    present: str
    source: str


def list_models() -> list[ModelRow]:
    """Return every known model, in the manifest's order. Reads sizes from the disk, not contents."""
    return [
        ModelRow(
            name=model.name,
            stage=model.stage,
            description=model.description,
            licence=model.licence,
            size_bytes=model.stored_bytes,
            present="no" if not folder_of(model).is_dir() else "damaged" if damage(model) else "yes",
            source=str(model.source),
        )
        for model in models().values()
    ]


def models_table() -> Table:
    """Return the table that `turnscope models` prints."""
    table = Table("model", "stage", "here", "size", "licence", "source", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    table.columns[5].overflow = "fold"
    for row in list_models():
        table.add_row(row.name, row.stage, row.present, decimal(row.size_bytes), row.licence, row.source)
    return table
