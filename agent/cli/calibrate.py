"""`turnscope calibrate`: how long each engine takes with nothing beside it, measured once and kept."""

from pathlib import Path
from typing import Any

import click

from agent.cli import consoles, surveying
from agent.cli.gathering import calibrated
from agent.cli.interruption import ending_at_once
from agent.cli.loading_engines import chosen, engines_ready, say_what_to_know
from agent.cli.pipeline_options import pipeline_options
from agent.experiments.calibration import store
from agent.experiments.workload.book import work_book
from profiling.report.calibration import tables
from profiling.trace.clock import SystemClock

_LEAST_WIDTH = 110


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
@pipeline_options
@click.option("--again", is_flag=True, help="Measure, even where these engines have been calibrated.")
def calibrate(config: Path | None, again: bool, **pipeline: Any) -> None:
    """Measure how long every engine takes alone: the laws that runs are compared with.

    Takes about a minute, in which nothing else should run. The result stays in the user's cache; a run of engines that
    were never calibrated does it first.
    """
    settings = chosen(config, pipeline)
    console, notes = consoles.output(), consoles.notes()
    say_what_to_know(settings, notes)
    found = None if again else store.find(settings)
    if found is None:
        with engines_ready(settings, notes) as engines, ending_at_once():
            if surveying.known() is None:
                surveying.measure(notes)
            found = calibrated(settings, engines, work_book(settings), SystemClock(), notes)
    console.width = max(console.width, _LEAST_WIDTH)
    for table in tables(found):
        console.print(table)
    for warning in found.warnings:
        consoles.note(notes, warning)
    console.print(
        f"Measured {found.made} in {found.took_s:.0f} s; `turnscope calibrate --again` measures anew.",
        highlight=False,
        markup=False,
    )
