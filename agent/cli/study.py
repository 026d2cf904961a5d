"""`turnscope study`: a question about engines or the machine, answered by measurements."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from agent.cli import consoles
from agent.cli.interruption import ending_at_once
from agent.cli.loading_engines import chosen, fetch_absent, say_what_to_know
from agent.cli.pipeline_options import pipeline_options
from agent.errors import TurnscopeError
from agent.experiments.studies.study import STUDIES, Bench, study
from profiling.report.study import draw, table
from profiling.studies.finding import Finding
from profiling.trace.clock import SystemClock

_WIDTH = 80
_QUICK_S, _WHOLE_S = 10.0, 60.0


def _epilog() -> str:
    return "\b\nStudies:\n" + "\n".join(f"  {name:<13} {question}" for name, question in STUDIES.items())


@click.command("study", epilog=_epilog())
@click.argument("name", type=click.Choice(list(STUDIES)), metavar="NAME")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
@pipeline_options
@click.option("--quick", is_flag=True, help="Measure for seconds, not for a minute.")
@click.option("--runs", "runs_folder", type=click.Path(path_type=Path), default=Path("runs"), help="Where results go.")
def study_command(name: str, config: Path | None, quick: bool, runs_folder: Path, **pipeline: Any) -> None:
    """Answer a question about engines or the machine by measuring: a table, a plot and a sentence.

    Nothing else should run meanwhile.
    """
    settings = chosen(config, pipeline)
    console, notes = consoles.output(), consoles.notes()
    say_what_to_know(settings, notes)
    fetch_absent(settings, notes)
    folder = _folder(runs_folder, name)
    with ending_at_once(), consoles.progress(notes) as tell:
        finding = study(name).run(Bench(settings, SystemClock(), tell, budget_s=_QUICK_S if quick else _WHOLE_S))
    console.width = max(console.width, _WIDTH)
    console.print(f"{STUDIES[name]}\n", style="dim", highlight=False, markup=False)
    console.print(table(finding))
    console.print(finding.sentence, style="bold", highlight=False, markup=False)
    for note in finding.notes:
        consoles.note(notes, note)
    _keep(folder, finding)
    console.print(f"\nPlot and figures: {folder}", highlight=False, markup=False, soft_wrap=True)


def _folder(runs: Path, name: str) -> Path:
    """Made before a minute is spent."""
    folder = runs / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-study-{name}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise TurnscopeError(
            f"The folder {folder} cannot be made ({error.strerror}): give another one with --runs."
        ) from None
    return folder


def _keep(folder: Path, finding: Finding) -> None:
    content = {
        "title": finding.title,
        "columns": finding.columns,
        "rows": finding.rows,
        "sentence": finding.sentence,
        "notes": finding.notes,
        "data": finding.data,
    }
    try:
        (folder / "study.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draw(finding.plot, folder / "plot.png")
    except OSError as error:
        raise TurnscopeError(f"The results cannot be written into {folder} ({error.strerror}).") from None
