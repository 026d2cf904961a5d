"""Whole conversations: the bundled scenarios replayed at real pace on the embedded engines, and listening by itself."""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from agent.audio.pace import precise_loop
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.engine_choice import with_models
from agent.engines import Engines
from agent.events import Event, TurnEnded
from agent.loading import load_engines
from agent.replay import ScenarioStarted, replay
from agent.scenario import bundled, load_scenario
from agent.settings import Settings, load
from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor, SystemClock
from profiling.trace.otlp_file import TraceFile
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.bench.figure import Figure

T = TypeVar("T")
PACKET = CAPTURE_RATE_HZ // 50


def conversations(console: Console) -> Iterator[Figure]:
    settings = with_models(load(flags={"engines": "cpu"}))
    turns, listening_share = _run(_measure(settings, console))
    console.print(_latencies(turns))
    yield from _figures(turns, listening_share)


def _run(measure: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(measure)


async def _measure(settings: Settings, console: Console) -> tuple[list[Turn], float]:
    clock, turns = SystemClock(), list[Turn]()
    engines = load_engines(settings, clock, console.print)

    def observe(event: Event | ScenarioStarted) -> None:
        if isinstance(event, TurnEnded):
            turns.append(event.turn)
            latency = "-" if event.turn.latency_ns is None else f"{event.turn.latency_ns / 1e6:.0f} ms"
            console.print(f"  turn {len(turns)}: {latency}  {event.transcript}", highlight=False)

    console.print("Replaying at real pace …")
    await replay([load_scenario(name) for name in bundled()], engines, settings, clock, observe)
    share = _listening_share(engines, console)
    await engines.workers.close()
    return turns, share


def _listening_share(engines: Engines, console: Console) -> float:
    """CPU seconds of VAD and partial transcripts per second of human speech at the default chunk, one utterance after
    another."""
    console.print("Listening …")
    chunk = engines.asr.chunk_end(1)
    scenario = load_scenario("sense-and-sensibility")
    cpu_s = heard_s = 0.0
    for utterance in scenario.utterances:
        samples = utterance.recording.samples
        started_s = time.process_time()
        stream, vad = engines.asr.open(), engines.vad.open()
        for start in range(0, len(samples), PACKET):
            vad.push(samples[start : start + PACKET])
        for start in range(0, len(samples), chunk):
            stream.step(samples[start : start + chunk], lambda: False)
        stream.finalize(np.zeros(0, np.float32), lambda: False)
        cpu_s += time.process_time() - started_s
        heard_s += utterance.recording.duration_s
    return cpu_s / heard_s


def _figures(turns: list[Turn], listening_share: float) -> Iterator[Figure]:
    paths = [path for turn in turns if (path := critical_path(turn))]
    ours_ms = [path.ours_ns / 1e6 for path in paths]
    lost_ms = [path.totals.get(Stage.UNATTRIBUTED, 0) / 1e6 for path in paths]
    how = f"median of {len(paths)} turns"
    yield Figure("host + queue + unattributed", statistics.median(ours_ms), 10, "ms", how)
    yield Figure("unattributed", statistics.median(lost_ms), 5, "ms", how)
    yield Figure("tracing and timeline", _tracing_percent(turns), 0.5, "%", "counts x unit costs, of the turn, median")
    yield Figure("listening", listening_share, 0.35, "cores", "CPU seconds per second of human speech, default chunk")
    stops_ms = [1000 * stop for turn in turns if isinstance(stop := turn.attributes.get(v.TURN_BARGE_IN_STOP_S), float)]
    yield Figure("silent after a barge-in", max(stops_ms), 100, "ms", f"longest of {len(stops_ms)}")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    yield Figure("memory", peak_mb, 900, "MB", "peak resident size of the whole process")
    underruns = sum(int(str(turn.groups.get((v.PLAYOUT, None), {}).get(v.PLAYOUT_UNDERRUNS, 0))) for turn in turns)
    yield Figure("underruns", underruns, 0, "", "all turns")


def _tracing_percent(turns: list[Turn]) -> float:
    """The cost of recording and writing each turn's steps and of its array entries, as a share of the turn's length."""
    add_s = _unit_cost_s(lambda turn: turn.add(Stage.HOST, 0, 1))
    append_s = _unit_cost_s(lambda turn: turn.attributes.__setitem__("x", 1))
    with tempfile.TemporaryDirectory() as folder:
        trace, anchor = TraceFile(Path(folder) / "trace.jsonl", {}), Anchor.read(SystemClock())
        shares = [_tracing_s(turn, trace, anchor, add_s, append_s) / _length_s(turn) for turn in turns]
        trace.close()
    return 100 * statistics.median(shares)


def _tracing_s(turn: Turn, trace: TraceFile, anchor: Anchor, add_s: float, append_s: float) -> float:
    arrays = [step.attributes.get(v.START_TIMES_NS) for step in turn.steps]
    entries = sum(len(array) for array in arrays if not isinstance(array, int | float | str | None))
    writes: list[float] = []
    for _ in range(5):
        started_s = time.perf_counter()
        trace.write(turn, anchor)
        writes.append(time.perf_counter() - started_s)
    return len(turn.steps) * add_s + 2 * entries * append_s + statistics.median(writes)


def _length_s(turn: Turn) -> float:
    return ((turn.end_ns or turn.speech_start_ns) - turn.speech_start_ns) / 1e9


def _unit_cost_s(operation: Callable[[Turn], object], count: int = 2000) -> float:
    turn = Turn("bench", 1, 0)
    started_s = time.perf_counter()
    for _ in range(count):
        operation(turn)
    return (time.perf_counter() - started_s) / count


def _latencies(turns: list[Turn]) -> str:
    latencies_ms = sorted(turn.latency_ns / 1e6 for turn in turns if turn.latency_ns is not None)
    median = statistics.median(latencies_ms)
    lowest, highest = latencies_ms[0], latencies_ms[-1]
    return f"Turn latency: median {median:.0f} ms, {lowest:.0f} to {highest:.0f} ms, n = {len(latencies_ms)}"
