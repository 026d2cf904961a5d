"""The listening models alone: one frame of the voice detector, one question to the turn detector."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.engines import Engines
from agent.experiments.calibration.on_worker import on_worker
from profiling import operations as op
from profiling.calibration import Sample
from profiling.trace.clock import NS_PER_S, Clock

_REPETITIONS = 15
_VAD_FRAME = 512  # samples


def measure_listening(engines: Engines, sound: NDArray[np.float32], clock: Clock) -> list[Sample]:
    """`sound` (float32, 16 kHz) is what the turn detector is asked about; it may be absent."""
    frame, vad = sound[:_VAD_FRAME], engines.vad.open()
    samples = _timed(op.VAD, lambda: vad.push(frame), clock)
    asked = engines.smart_turn
    if asked is not None:
        worker = engines.workers.smart_turn
        samples += on_worker(worker, lambda: _timed(op.SMART_TURN, lambda: asked.probability(sound), clock))
    return samples


def _timed(operation: str, once: Callable[[], object], clock: Clock) -> list[Sample]:
    """The first call warms up."""
    times_s: list[float] = []
    for _ in range(1 + _REPETITIONS):
        start_ns = clock.now_ns()
        once()
        times_s.append((clock.now_ns() - start_ns) / NS_PER_S)
    return [Sample(operation=operation, duration_s=s) for s in times_s[1:]]
