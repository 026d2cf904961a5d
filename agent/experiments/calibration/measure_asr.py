"""The recogniser alone: recorded sentences, chunk by chunk, as fast as it goes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.asr.protocol import AsrEngine, Transcript
from agent.experiments.calibration.budget import Budget
from profiling import operations as op
from profiling.calibration import Sample
from profiling.trace.clock import NS_PER_S


def measure_asr(engine: AsrEngine, sounds: Sequence[NDArray[np.float32]], budget: Budget) -> Iterator[Sample]:
    """`sounds` (float32, 16 kHz) one after another, again and again while there is time; the first one whole."""
    for heard in budget.rounds():
        for transcript in _heard(engine, sounds[heard % len(sounds)]):
            yield _sample(transcript)
            if heard and budget.spent:
                return


def _heard(engine: AsrEngine, sound: NDArray[np.float32]) -> Iterator[Transcript]:
    stream, start = engine.open(), 0
    while (end := engine.chunk_end(start + 1)) < len(sound):
        yield stream.step(sound[start:end], lambda: False)
        start = end
    yield stream.finalize(sound[start:], lambda: False)


def _sample(transcript: Transcript) -> Sample:
    passes = len(transcript.passes_ns)
    units = {op.ENCODED_S: transcript.encoded_s, op.TOKENS: float(transcript.tokens), op.PASSES: float(passes)}
    return Sample(
        operation=op.ASR_STEP,
        duration_s=(transcript.end_ns - transcript.start_ns) / NS_PER_S,
        units=units,
        parts_s={part: sum(ns) / NS_PER_S for part, ns in transcript.parts_ns.items()},
    )
