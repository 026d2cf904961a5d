"""`turnscope replay`: recorded conversations through the pipeline at real pace, explained turn by turn."""

import asyncio
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from agent import models
from agent.audio.pace import precise_loop
from agent.audio.stereo_writer import StereoWriter
from agent.cli import consoles
from agent.cli.explaining import explanation_of
from agent.cli.gathering import Gathered, gather
from agent.cli.interruption import ending_at_once
from agent.cli.live import LiveDisplay, printable
from agent.cli.pipeline_options import notes as engine_sentences
from agent.cli.pipeline_options import pipeline_options, settings_of
from agent.cli.session import ConversationRecording, Session
from agent.devices import CPU
from agent.engine_choice import Places, choose, needed_models, places, with_models
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import Event, TurnEnded
from agent.loading import load_engines
from agent.replay import ScenarioStarted
from agent.replay import replay as play
from agent.scenario import Scenario, bundled, load_scenario
from agent.settings import Settings, load, recorded
from profiling.report.terminal import print_summary, print_turn
from profiling.run import RunWriter
from profiling.run_evidence import load_evidence
from profiling.trace.clock import SystemClock

if TYPE_CHECKING:
    from profiling.trace.collector import Collector

_PLACES = {CPU: "the CPU", "gpu": "the GPU"}
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
    settings = with_models(load(config, settings_of(pipeline) | {"capture_content": content}))
    loaded = [load_scenario(name) for name in scenarios or DEFAULT_SCENARIOS]
    console, notes = consoles.output(), consoles.notes()
    for scenario in loaded:
        for warning in scenario.warnings:
            consoles.note(notes, warning)
        if scenario.language not in (None, settings.language):
            consoles.note(notes, f"{scenario.name} is in {scenario.language!r}, but the agent speaks English.")
    for sentence in engine_sentences(settings):
        consoles.note(notes, sentence)
    collector = _collector(otlp) if otlp else None
    if runs_folder.exists() and not runs_folder.is_dir():
        raise TurnscopeError(f"{runs_folder} is not a folder: give one to --runs, where run folders can be made.")
    names = needed_models(settings)
    models.ensure([name for name in names if name in models.embedded_models()], notes)
    with ending_at_once(), notes.status("Loading the models") as status:
        engines = load_engines(settings, SystemClock(), lambda what: status.update(f"Getting ready: {what} …"))
    gathered = gather(settings, engines, SystemClock(), notes, measured=measured)
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(_replay(loaded, settings, names, engines, gathered, runs_folder, collector, console, notes))


async def _replay(
    scenarios: Sequence[Scenario],
    settings: Settings,
    models_used: Sequence[str],
    engines: Engines,
    gathered: Gathered,
    runs_folder: Path,
    collector: "Collector | None",
    console: Console,
    notes: Console,
) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as at_the_end:
        at_the_end.push_async_callback(engines.workers.close)
        writer = RunWriter(
            runs_folder,
            _run_name(scenarios),
            clock,
            settings=recorded(settings),
            scenarios=[scenario.name for scenario in scenarios],
            models=_model_hashes(settings, models_used),
        )
        gathered.keep(writer.folder)
        gathered.probe(writer.folder, clock)
        session = Session(writer, settings.capture_content, collector, gathered.book)
        at_the_end.callback(
            lambda: _print_end(console, notes, session, scenarios, measured=gathered.survey is not None)
        )
        at_the_end.callback(session.close)
        rate_hz = engines.tts.sample_rate
        recording = ConversationRecording(StereoWriter(writer.wav_path, rate_hz), rate_hz)
        at_the_end.callback(recording.close)
        console.print(_who_talks(engines, places(settings)), style="dim", highlight=False, markup=False)
        display = LiveDisplay(console, lambda event, number: _print_turn(console, event, number))
        await at_the_end.enter_async_context(display)

        def observe(event: Event | ScenarioStarted) -> None:
            if isinstance(event, ScenarioStarted):
                display.announce(event.scenario)
                if session.turns:
                    gathered.probe_in_gap(clock)
            else:
                session.observe(event)
                display.observe(event)

        await play(scenarios, engines, settings, clock, observe, recording)
        session.complete = True
        gathered.probe(writer.folder, clock)


def _who_talks(engines: Engines, places: Places) -> str:
    on_a_gpu = any(place not in (None, CPU) for place in (places.asr, places.llm, places.tts))

    def on(place: str | None) -> str:
        return f" on {_PLACES.get(place, place)}" if on_a_gpu and place else ""

    return (
        f"Hearing with {printable(engines.asr.model)}{on(places.asr)}, "
        f"thinking with {printable(engines.llm.model)}{on(places.llm)}, "
        f"speaking with {printable(engines.tts.model)}{on(places.tts)}."
    )


def _print_turn(console: Console, event: TurnEnded, number: int) -> None:
    print_turn(console, event.turn, number, event.transcript, event.heard)


def _print_end(
    console: Console, notes: Console, session: Session, scenarios: Sequence[Scenario], *, measured: bool
) -> None:
    if session.turns:
        print_summary(console, session.turns)
    if session.turns and measured:
        writer = session.writer
        explanation_of(session.turns, writer.info.settings, load_evidence(writer.folder)).print_run(console)
    if session.problem:
        consoles.note(notes, session.problem)
    expected = sum(scenario.expect_turns for scenario in scenarios)
    if session.complete and len(session.turns) != expected:
        turns = "turn" if expected == 1 else "turns"
        consoles.note(notes, f"Expected {expected} {turns}, heard {len(session.turns)}.")
    state = "" if session.complete else "Stopped early; what was recorded is kept. "
    for line in (
        f"\n{state}Run folder: {session.writer.folder}",
        f"  listen    {session.writer.wav_path}  (you left, agent right)",
        f"  explain   {_command()} explain {session.writer.folder}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _collector(url: str) -> "Collector":
    from profiling.trace.collector import Collector  # imported late: it takes 0.2 s

    try:
        return Collector(url)
    except ValueError as error:
        raise TurnscopeError(str(error)) from None


def _command() -> str:
    """How this program was called, as one would type it again."""
    if shutil.which("turnscope"):
        return "turnscope"
    return "python -m agent.cli" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]


def _run_name(scenarios: Sequence[Scenario]) -> str:
    return re.sub(r"\W+", "-", scenarios[0].name) + (f"-and-{len(scenarios) - 1}-more" if len(scenarios) > 1 else "")


def _model_hashes(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """SHA-256 by file of every stored model in use; of one given by path, its file name alone is known."""
    hashes = {f"{name}/{file}": stored.sha256 for name in names for file, stored in models.stored_files(name).items()}
    choice = choose(settings)
    given = [path for path in (choice.asr_path, choice.llm_path, choice.tts_path, settings.llm.draft) if path]
    return hashes | {path.name: "not verified" for path in given}
