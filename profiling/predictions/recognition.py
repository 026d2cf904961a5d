"""The recogniser: the wait for its chunk, and its computing as it was calibrated."""

from collections.abc import Iterator, Sequence

from profiling.interval import Interval
from profiling.operations import ASR_STEP, TOKENS
from profiling.predictions.conditions import NOT_CALIBRATED, Conditions, Measured, first_impossible
from profiling.predictions.operation_law import Batch, operation_law
from profiling.predictions.prediction import Figure, Law, Prediction, compare
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import described

_NOTHING = "No recognition in this run."


def recognition(turns: Sequence[Measured], conditions: Conditions) -> Iterator[Prediction]:
    yield _wait(turns, conditions)
    yield _computing(turns, conditions)


def _wait(turns: Sequence[Measured], conditions: Conditions) -> Prediction:
    recognised = [one.turn for one in turns if any(step.stage is Stage.ASR_FINALIZE for step in one.turn.steps)]
    cadence = not any(described(turn, v.ASR, v.ASR_RIGHT_CONTEXT) is not None for turn in recognised)
    waits = any(step.stage is Stage.ASR_CHUNK_WAIT for turn in recognised for step in turn.steps)
    flushed = False if waits else True if cadence else conditions.flushed

    def predict(half_chunks: Sequence[float | None]) -> Interval | None:
        if flushed:
            return Interval.exactly(0.0)
        known = [half for half in half_chunks if half is not None]
        return Interval.of_median(known) if flushed is False and len(known) == len(half_chunks) else None

    law = Law(
        "ASR wait",
        "none when flushed, else half a chunk less what the hangover hides",
        "s",
        predict,
        "Not known whether the stream was flushed." if recognised else _NOTHING,
    )
    figures = [Figure(_waited_s(turn), _half_chunk_s(turn, conditions.tail_s)) for turn in recognised]
    if cadence and not waits:
        return compare(law, figures, "This model's chunk is only the cadence of partial transcripts.")
    return compare(law, figures, "Flushed." if flushed else "Not flushed.")


def _waited_s(turn: Turn) -> float:
    return sum(step.duration_ns for step in turn.steps if step.stage is Stage.ASR_CHUNK_WAIT) / 1e9


def _half_chunk_s(turn: Turn, tail_s: float) -> float | None:
    """The median wait after the end of the turn was decided: the chunk's end comes as likely at any time as at another.
    None where the chunk or the time of the decision is not known."""
    chunk_s = described(turn, v.ASR, v.ASR_CHUNK_S)
    decided = [step.start_ns for step in turn.steps if step.stage is Stage.ASR_CHUNK_WAIT]
    if chunk_s is None or turn.speech_end_ns is None:
        return None
    ends_ns = [step.end_ns for step in turn.steps if step.stage is Stage.ENDPOINT_WAIT]
    decided += [max(ends_ns)] if ends_ns and max(ends_ns) >= turn.speech_end_ns else []
    if not decided:
        return None
    return max(0.0, tail_s + chunk_s / 2 - (decided[0] - turn.speech_end_ns) / 1e9)


def _computing(turns: Sequence[Measured], conditions: Conditions) -> Prediction:
    calibrated = operation_law(conditions.calibration, ASR_STEP)
    figures: list[Figure[list[Batch]]] = []
    for one in turns:
        steps = [reading for reading in one.of(ASR_STEP) if reading.units.get(TOKENS) is not None]
        if steps:
            value = sum(reading.duration_s for reading in steps) / len(steps)
            batches = [Batch(reading.units) for reading in steps]
            figures.append(Figure(value, batches, first_impossible(steps, conditions)))

    def predict(found: Sequence[list[Batch]]) -> Interval | None:
        return calibrated.interval_at(found, [float(len(batches)) for batches in found]) if calibrated else None

    law = Law(
        "ASR compute",
        "a step as calibrated, by the sound it encodes and its tokens",
        "s per step",
        predict,
        NOT_CALIBRATED if figures else _NOTHING,
        size=lambda batches: calibrated.at(batches) / len(batches) if calibrated else None,
    )
    return compare(law, figures)
