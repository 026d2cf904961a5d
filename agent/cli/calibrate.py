"""`turnscope calibrate`: how long each engine takes with nothing beside it, measured once and kept."""

import asyncio
from pathlib import Path
from typing import Any

import click

from agent import models
from agent.cli import consoles, surveying
from agent.cli.gathering import calibrated
from agent.cli.interruption import ending_at_once
from agent.cli.pipeline_options import notes as engine_sentences
from agent.cli.pipeline_options import pipeline_options, settings_of
from agent.engine_choice import needed_models, with_models
from agent.experiments.calibration import store
from agent.experiments.work.book import work_book
from agent.loading import load_engines
from agent.settings import load
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
    settings = with_models(load(config, settings_of(pipeline)))
    console, notes = consoles.output(), consoles.notes()
    for sentence in engine_sentences(settings):
        consoles.note(notes, sentence)
    found = None if again else store.find(settings)
    if found is None:
        names = needed_models(settings)
        models.ensure([name for name in names if name in models.embedded_models()], notes)
        if surveying.known() is None:
            surveying.measure(notes)
        with ending_at_once(), notes.status("Loading the models") as status:
            engines = load_engines(settings, SystemClock(), lambda what: status.update(f"Getting ready: {what} …"))
        try:
            with ending_at_once():
                found = calibrated(settings, engines, work_book(settings), SystemClock(), notes)
        finally:
            asyncio.run(engines.workers.close())
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
