"""Runs one converter: python -m agent.models.convert NAME SOURCE TARGET. Prints its steps, one a line."""

import importlib
import sys
from pathlib import Path


def _report(done: int, total: int, text: str) -> None:
    print(done, total, text, flush=True)


if __name__ == "__main__":
    name, source, target = sys.argv[1:]
    importlib.import_module(f"agent.models.convert.{name}").convert(Path(source), Path(target), _report)
