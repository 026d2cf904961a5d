"""One scripted turn through all three engines at once: a recorded voice, played at real pace into the pipeline's own
conversation, which keeps it in a run folder."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from agent.audio.pace import precise_loop
from agent.audio.stereo_writer import StereoWriter
from agent.cli.session import ConversationRecording, Session
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import Event, TurnEnded
from agent.experiments.calibration.measure_listening import measure_listening
from agent.experiments.full_size.memory import give_back
from agent.loading import load_engines
from agent.replay import ScenarioStarted, replay
from agent.scenario import Scenario, load_scenario
from agent.settings import Settings, recorded
from profiling import operations as op
from profiling.environment import BIG_LIBRARIES, LIBRARIES
from profiling.run import RunWriter
from profiling.trace.clock import Clock
from profiling.trace.timeline import Turn


@dataclass(frozen=True)
class Alone:
    """Seconds that the listening models take with nothing beside them: one frame, one question."""

    vad_s: float
    smart_turn_s: float


@dataclass(frozen=True)
class Played:
    turn: Turn
    alone: Alone
    run_folder: Path


def play_turn(settings: Settings, scenario: str, runs: Path, clock: Clock, tell: Callable[[str], None]) -> Played:
    """Load everything, play the scenario, and give its one turn. Raises TurnscopeError when there was no answer."""
    loaded = load_scenario(scenario)

    def tell_loading(what: str) -> None:
        give_back()  # what the engine before needed only while it was loaded
        tell(f"all three: {what}")

    engines = load_engines(settings, clock, tell_loading)
    tell(f"all three: playing {loaded.name} at real pace, and waiting for the reply")
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(_play(settings, loaded, engines, runs, clock))


async def _play(settings: Settings, scenario: Scenario, engines: Engines, runs: Path, clock: Clock) -> Played:
    alone = _measured_alone(engines, scenario, clock)
    ended: list[TurnEnded] = []
    async with AsyncExitStack() as at_the_end:
        at_the_end.push_async_callback(engines.workers.close)
        writer = RunWriter(
            runs,
            f"full-size-{scenario.name}",
            clock,
            settings=recorded(settings),
            scenarios=[scenario.name],
            models={str(section.model): "random weights" for section in (settings.asr, settings.llm, settings.tts)},
            libraries=(*LIBRARIES, *BIG_LIBRARIES),
        )
        session = Session(writer, settings.capture_content, None)
        at_the_end.callback(session.close)
        rate_hz = engines.tts.sample_rate
        recording = ConversationRecording(StereoWriter(writer.wav_path, rate_hz), rate_hz)
        at_the_end.callback(recording.close)

        def observe(event: Event | ScenarioStarted) -> None:
            if isinstance(event, ScenarioStarted):
                return
            session.observe(event)
            if isinstance(event, TurnEnded):
                ended.append(event)

        await replay([scenario], engines, settings, clock, observe, recording)
        session.complete = True
    return _answered(ended, alone, writer.folder)


def _answered(ended: list[TurnEnded], alone: Alone, run_folder: Path) -> Played:
    for event in ended:
        if event.turn.latency_ns is not None:
            return Played(event.turn, alone, run_folder)
    failed = next((event.error for event in ended if event.error), None)
    raise TurnscopeError(
        f"The scripted turn was not answered aloud ({failed or 'nothing was recognised'}): its run is in {run_folder}."
    )


def _measured_alone(engines: Engines, scenario: Scenario, clock: Clock) -> Alone:
    found = measure_listening(engines, scenario.utterances[0].recording.samples, clock)
    times_s = {name: [one.duration_s for one in found if one.operation == name] for name in (op.VAD, op.SMART_TURN)}
    return Alone(median(times_s[op.VAD]), median(times_s[op.SMART_TURN] or [0.0]))
