"""`make bench`: what only a real machine can show, measured in one run and held against the limits that the project
sets itself.

`python -m tests.bench` runs every part, `python -m tests.bench explaining verdicts` those two. Exit code 1 when a limit
is passed.
"""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.calibrating import calibrating
from tests.bench.conversations import conversations
from tests.bench.explaining import explaining
from tests.bench.figure import Figure, Part, load
from tests.bench.foretelling import foretelling
from tests.bench.verdicts import verdicts

# In their order, whatever order is asked for: the memory of the conversations is the process's highest so far.
PARTS: dict[str, Part] = {
    part.__name__: part for part in (conversations, explaining, calibrating, verdicts, foretelling)
}


def main(names: Sequence[str]) -> int:
    console = Console()
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        console.print(f"There is no part {', '.join(unknown)}: choose among {', '.join(PARTS)}.")
        return 2
    figures: list[Figure] = []
    for name in PARTS if not names else [name for name in PARTS if name in names]:
        console.print(f"[bold]{name}[/] · {load()}", highlight=False)
        started_s = time.perf_counter()
        figures += PARTS[name](console)
        console.print(f"  {time.perf_counter() - started_s:.0f} s", highlight=False)
    console.print(_table(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(title="What must hold")
    for heading in ("claim", "measured", "limit", "", "how"):
        table.add_column(heading, justify="right" if heading in ("measured", "limit") else "left")
    for figure in figures:
        mark = "[green]holds[/]" if figure.holds else "[bold red]FAILS[/]"
        side = "at least " if figure.at_least else ""
        measured, limit = f"{figure.measured:.3g} {figure.unit}", f"{side}{figure.limit:g} {figure.unit}"
        table.add_row(figure.claim, measured, limit, mark, figure.how)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
