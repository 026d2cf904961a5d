"""`turnscope machine`: what this machine can do at most, measured once and kept."""

from datetime import UTC, datetime
from pathlib import Path

import click

from agent.cli import consoles
from agent.cli.output_file import OutputFile

_LEAST_WIDTH = 120
_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


@click.command()
@click.option("--again", is_flag=True, help="Measure, even where there is a survey of this machine.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="File for all figures.")
def machine(again: bool, json_path: Path | None) -> None:
    """Measure what this machine can do at most: reading memory, arithmetic by number type, the cost of an empty step.

    Takes up to a minute, in which nothing else should run. The result stays in the user's cache, where `calibrate`
    and `explain` find it.
    """
    from agent.cli import surveying
    from profiling.machine.cached import age_s
    from profiling.report.machine import facts, tables

    console, notes = consoles.output(), consoles.notes()
    file = json_path and OutputFile(json_path, "give another place with --json")
    if file:
        file.require_writable()
    known = None if again else surveying.known()
    found = known or surveying.measure(notes)
    console.width = max(console.width, _LEAST_WIDTH)
    for line in facts(found):
        console.print(line, highlight=False, markup=False)
    for table in tables(found):
        console.print(table)
    for warning in found.warnings:
        consoles.note(notes, warning)
    if known:
        old = said_age(age_s(known, datetime.now(UTC)))
        console.print(f"Measured {old} ago; `turnscope machine --again` measures anew.", highlight=False, markup=False)
    else:
        console.print(f"Took {found.took_s:.0f} s.", highlight=False, markup=False)
    if file:
        file.write(found.model_dump_json(indent=2) + "\n")


def said_age(s: float) -> str:
    for length_s, name in _SPANS:
        if s >= length_s:
            count = int(s // length_s)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return "less than a minute"
