"""Utterances that end at several phases of a chunk, recognised as they would be in true streaming.

No sound is waited for: a step is really computed, and stands in a schedule from when its chunk has been spoken, or from
the end of the step before if that is later, for as long as it took. What comes due meanwhile is taken together with the
chunk after it, as in a conversation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.asr.nemotron_choices import CHUNKS_MS, right_context
from agent.asr.protocol import AsrEngine, Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.engine_choice import choose
from agent.experiments.calibration.budget import Budget
from agent.experiments.studies.study import Bench
from agent.models.chosen import asr_model
from agent.scenario import load_scenario
from profiling.studies.finalisation import Ending, finalisation_finding
from profiling.studies.finding import Finding
from profiling.trace.clock import seconds

_SCENARIOS = ("go-forward", "capital-cities")
_CADENCES_MS = (160, 320, 640, 1120)  # of a model whose chunk is only the cadence of partials
# Where in its chunk speech ends, as the share that is still to come. The mean of each group is a half, as it is of all.
_PHASES = ((1 / 2, 1 / 8, 7 / 8), (1 / 4, 3 / 4), (3 / 8, 5 / 8), (1 / 16, 15 / 16))


@dataclass(frozen=True)
class Cadence:
    """An engine, and when its steps are due: `chunk_end` is as the engine's."""

    chunk_s: float
    engine: AsrEngine
    chunk_end: Callable[[int], int]


@dataclass(frozen=True)
class Speech:
    """`sound` (float32, 16 kHz), in which speech ends at the sample `end`."""

    sound: NDArray[np.float32]
    end: int

    def after_silence(self, samples: int) -> "Speech":
        return Speech(np.pad(self.sound, (samples, 0)), self.end + samples)

    def between(self, start: int, end: int) -> NDArray[np.float32]:
        return np.pad(self.sound[start:end], (0, max(0, end - max(start, len(self.sound)))))


def run(bench: Bench) -> Finding:
    cadences = _nemotron(bench) if choose(bench.settings).asr == "nemotron" else _of_one(bench.asr)
    bench.tell("warming up")
    for engine in {id(cadence.engine): cadence.engine for cadence in cadences}.values():
        engine.warm_up()
    bench.tell("utterances that end anywhere in a chunk")
    spoken = [
        Speech(one.recording.samples, one.last_voiced_sample)
        for name in _SCENARIOS
        for one in load_scenario(name).utterances
        if one.last_voiced_sample is not None
    ]
    endings = list(measure(cadences, spoken, Budget(bench.clock, bench.budget_s)))
    return finalisation_finding(cadences[0].engine.model, endings)


def measure(cadences: Sequence[Cadence], spoken: Sequence[Speech], budget: Budget) -> Iterator[Ending]:
    """Every cadence at every phase of a group, then the next group while there is time; the utterances in turn."""
    number = 0
    for group in budget.rounds():
        for phase in _PHASES[group % len(_PHASES)]:
            for cadence in cadences:
                yield ending(cadence, spoken[number % len(spoken)], phase)
            number += 1


def ending(cadence: Cadence, speech: Speech, phase: float) -> Ending:
    """Of speech that is shifted so that it ends with so much of a chunk to come."""
    engine, chunk_end = cadence.engine, cadence.chunk_end
    due = chunk_end(speech.end)
    size = chunk_end(due + 1) - due
    shifted = speech.after_silence((due - speech.end - round(phase * size)) % size)
    due = chunk_end(shifted.end)
    flushed = _heard(engine, chunk_end, shifted, shifted.end)
    waits = engine.needs_whole_chunks
    return Ending(
        chunk_s=cadence.chunk_s,
        wait_s=(due - shifted.end) / CAPTURE_RATE_HZ,
        flushed_s=flushed.final_s - shifted.end / CAPTURE_RATE_HZ,
        unflushed_s=_heard(engine, chunk_end, shifted, due).final_s - shifted.end / CAPTURE_RATE_HZ if waits else None,
        queue_s=flushed.queue_s,
        last_step_s=flushed.expected_s,
        busy=flushed.computed_s * CAPTURE_RATE_HZ / shifted.end,
    )


@dataclass(frozen=True)
class _Heard:
    """The transcript was final `final_s` after the beginning of the sound. Its last step had waited `queue_s` for the
    worker and by the step before would take `expected_s`; all steps together took `computed_s`."""

    final_s: float
    queue_s: float
    expected_s: float | None
    computed_s: float


def _heard(engine: AsrEngine, chunk_end: Callable[[int], int], speech: Speech, last: int) -> _Heard:
    """The sound up to the sample `last`, when that has come, in the schedule of one worker."""
    stream, taken, free_s, computed_s = engine.open(), 0, 0.0, 0.0
    before: Transcript | None = None
    due = chunk_end(1)
    while due < last:
        due_s = due / CAPTURE_RATE_HZ
        if free_s <= due_s:
            before = stream.step(speech.between(taken, due), lambda: False)
            taken, free_s, computed_s = due, due_s + _took_s(before), computed_s + _took_s(before)
        due = chunk_end(due + 1)
    final = stream.finalize(speech.between(taken, last), lambda: False)
    last_s = last / CAPTURE_RATE_HZ
    start_s = max(last_s, free_s)
    passes = max(1, len(final.passes_ns))
    return _Heard(
        start_s + _took_s(final),
        start_s - last_s,
        _took_s(before) / max(1, len(before.passes_ns)) * passes if before else None,
        computed_s + _took_s(final),
    )


def _took_s(step: Transcript) -> float:
    return seconds(step.end_ns - step.start_ns)


def _nemotron(bench: Bench) -> list[Cadence]:
    """In all sizes of chunks that the model was trained for, on one loaded model."""
    from agent.asr.nemotron import NemotronEngine
    from agent.asr.nemotron_checkpoint import load

    asr, path = bench.settings.asr, choose(bench.settings).asr_path
    bench.tell("loading the recogniser")
    library: Any = load(asr_model(bench.settings), bench.settings.device)
    ahead = {context[1] for context in library.encoder.att_context_size_all if context[0] > 0}
    engines = {
        chunk_ms: NemotronEngine(
            library,
            clock=bench.clock,
            name=path.stem if path else str(asr.model),
            chunk_ms=chunk_ms,
            language=asr.language,
            threads=asr.threads,
            mode=asr.mode,
        )
        for chunk_ms in CHUNKS_MS
        if right_context(chunk_ms) in ahead
    }
    return [Cadence(chunk_ms / 1000, engine, engine.chunk_end) for chunk_ms, engine in engines.items()]


def _of_one(engine: AsrEngine) -> list[Cadence]:
    """A model that waits for no chunk is the same at every cadence."""

    def ends(chunk: int) -> Callable[[int], int]:
        return lambda sample: -(-sample // chunk) * chunk

    return [Cadence(ms / 1000, engine, ends(ms * CAPTURE_RATE_HZ // 1000)) for ms in _CADENCES_MS]
