"""What a run of the experiment found, for a file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.making import Made
from agent.experiments.full_size.samples import Row
from agent.experiments.full_size.shapes import Shapes
from profiling.environment import Machine
from profiling.machine import Ceiling

FORMAT, FILE = 2, "full-size.json"


@dataclass(frozen=True)
class Report:
    """`made` by engine; `ceilings` by what they were to explain; `laws` of small models by name, as they are written;
    `run_folder` is that of the scripted turn."""

    device: str
    machine: Machine
    versions: dict[str, str]
    shapes: Shapes
    effort: Effort
    made: dict[str, Made]
    ceilings: dict[str, dict[str, Ceiling]]
    laws: dict[str, Any]
    rows: Sequence[Row]
    notes: Sequence[str]
    took_s: float
    run_folder: Path | None

    def as_json(self) -> str:
        """One object; times in seconds, rates in bytes or operations per second."""
        told: dict[str, Any] = {
            "format": FORMAT,
            "device": self.device,
            "machine": self.machine.model_dump(),
            "versions": self.versions,
            "shapes": asdict(self.shapes),
            "effort": asdict(self.effort),
            "made": {
                name: {"folder": str(made.folder), "made_s": made.made_s, "files": made.files}
                for name, made in self.made.items()
            },
            "ceilings": {
                what: {name: asdict(one) | {"median": one.median} for name, one in those.items()}
                for what, those in self.ceilings.items()
            },
            "laws": self.laws,
            "rows": [row.as_json() for row in self.rows],
            "notes": list(self.notes),
            "took_s": self.took_s,
            "run_folder": None if self.run_folder is None else str(self.run_folder),
        }
        return json.dumps(told, indent=2) + "\n"
