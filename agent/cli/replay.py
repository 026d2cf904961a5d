"""`turnscope replay`: recorded conversations through the pipeline at real pace, explained turn by turn."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from agent.audio.pace import precise_loop
from agent.cli import consoles
from agent.cli.gathering import Gathered, gather
from agent.cli.live import LiveDisplay
from agent.cli.loading_engines import chosen, engines_ready, say_what_to_know
from agent.cli.pipeline_options import pipeline_options
from agent.cli.recorded_run import collector_at, recorded_run, require_runs_folder
from agent.cli.run_report import print_ended, who_talks
from agent.engine_choice import places
from agent.engines import Engines
from agent.events import Event
from agent.replay import ScenarioStarted
from agent.replay import replay as play
from agent.scenario import Scenario, bundled, load_scenario
from agent.settings import Settings
from profiling.trace.clock import SystemClock

if TYPE_CHECKING:
    from profiling.trace.collector import Collector

DEFAULT_SCENARIOS = ("go-forward", "do-something", "capital-cities")  # six turns: enough for a verdict


@click.command(epilog=f"Bundled scenarios: {', '.join(bundled())}.")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
@pipeline_options
@click.option("--content", is_flag=True, default=None, help="Keep transcripts and replies in the trace.")
@click.option("--otlp", metavar="URL", help="Also send the spans to this OTLP/HTTP collector.")
@click.option(
    "--calibrate/--no-calibrate",
    "measured",
    default=True,
    help="Measure machine and engines alone, once, before their first run.",
)
@click.option(
    "--runs", "runs_folder", type=click.Path(path_type=Path), default=Path("runs"), help="Where run folders go."
)
def replay(
    scenarios: tuple[str, ...],
    config: Path | None,
    content: bool | None,
    otlp: str | None,
    measured: bool,
    runs_folder: Path,
    **pipeline: Any,
) -> None:
    """Replay recorded conversations at real pace and explain every turn.

    SCENARIO is a bundled name, a scenario folder, or a WAV file. Without one, a short demonstration is played.
    """
    settings = chosen(config, pipeline, capture_content=content)
    loaded = [load_scenario(name) for name in scenarios or DEFAULT_SCENARIOS]
    console, notes = consoles.output(), consoles.notes()
    for scenario in loaded:
        for warning in scenario.warnings:
            consoles.note(notes, warning)
        if scenario.language not in (None, settings.language):
            consoles.note(notes, f"{scenario.name} is in {scenario.language!r}, but the agent speaks English.")
    say_what_to_know(settings, notes)
    collector = collector_at(otlp) if otlp else None
    require_runs_folder(runs_folder)
    with engines_ready(settings, notes) as engines:
        gathered = gather(settings, engines, SystemClock(), notes, measured=measured)
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(_replay(loaded, settings, engines, gathered, runs_folder, collector, console, notes))


async def _replay(
    scenarios: Sequence[Scenario],
    settings: Settings,
    engines: Engines,
    gathered: Gathered,
    runs_folder: Path,
    collector: "Collector | None",
    console: Console,
    notes: Console,
) -> None:
    clock = SystemClock()
    with recorded_run(
        runs_folder,
        _run_name(scenarios),
        settings,
        engines,
        gathered,
        clock,
        console,
        notes,
        scenarios=[scenario.name for scenario in scenarios],
        expected=sum(scenario.expect_turns for scenario in scenarios),
        collector=collector,
    ) as run:
        console.print(who_talks(engines, places(settings)), style="dim", highlight=False, markup=False)
        async with LiveDisplay(console, lambda event, number: print_ended(console, event, number)) as display:

            def observe(event: Event | ScenarioStarted) -> None:
                if isinstance(event, ScenarioStarted):
                    display.announce(event.scenario)
                    if run.session.turns:
                        gathered.probe_in_gap(clock)
                else:
                    run.session.observe(event)
                    display.observe(event)

            await play(scenarios, engines, settings, clock, observe, run.recording)
            run.session.complete = True
            gathered.probe(run.folder, clock)


def _run_name(scenarios: Sequence[Scenario]) -> str:
    return re.sub(r"\W+", "-", scenarios[0].name) + (f"-and-{len(scenarios) - 1}-more" if len(scenarios) > 1 else "")
