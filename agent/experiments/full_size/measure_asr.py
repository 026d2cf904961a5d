"""The recogniser: one pass per chunk size by part, and the flush that ends an utterance."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_checkpoint import load
from agent.asr.protocol import AsrStream, Transcript
from agent.experiments.full_size.demands import of_pass
from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.samples import SUM, Sample
from agent.experiments.full_size.settings import Placed
from agent.experiments.workload.laws import AsrLaw
from profiling.trace.clock import Clock, seconds

ENGINE = "asr"


def measure_asr(
    path: Path,
    placed: Placed,
    effort: Effort,
    sound: NDArray[np.float32],
    clock: Clock,
    tell: Callable[[str], None],
) -> list[Sample]:
    """`sound` (float32, 16 kHz) is heard over and over."""
    law = AsrLaw(path)
    tell("loading the recogniser")
    library = load(path, placed.device)
    samples: list[Sample] = []
    for chunk_ms in effort.asr_chunks_ms:
        engine = NemotronEngine(library, clock=clock, chunk_ms=chunk_ms, threads=placed.threads)
        tell(f"recogniser, chunks of {chunk_ms} ms: warming up")
        engine.warm_up()
        passes: list[Transcript] = []
        flushes: list[Transcript] = []
        for number in range(effort.asr_streams):
            tell(f"recogniser, chunks of {chunk_ms} ms: stream {number + 1} of {effort.asr_streams}")
            chunks = _chunks(engine, sound, 1 + effort.asr_passes)
            stream = engine.open()
            passes += _heard(stream, next(chunks), chunks)
            flushes.append(stream.finalize(sound[: len(sound) // 8][:640], lambda: False))
        samples += _samples(law, chunk_ms, passes, flushes)
    return samples


def _heard(stream: AsrStream, first: NDArray[np.float32], later: Iterator[NDArray[np.float32]]) -> list[Transcript]:
    """One pass each; that of the first chunk, which has no look-back, is not returned."""
    stream.step(first, lambda: False)
    return [stream.step(chunk, lambda: False) for chunk in later]


def _chunks(engine: NemotronEngine, sound: NDArray[np.float32], count: int) -> Iterator[NDArray[np.float32]]:
    start = 0
    for _ in range(count):
        end = engine.chunk_end(start + 1)
        yield np.take(sound, np.arange(start, end), mode="wrap")
        start = end


def _samples(
    law: AsrLaw, chunk_ms: int, passes: Sequence[Transcript], flushes: Sequence[Transcript]
) -> Iterator[Sample]:
    tokens = statistics.mean(heard.tokens for heard in passes)
    terms = law.a_pass(chunk_ms, tokens)
    stage = f"pass over {chunk_ms} ms"
    durations = tuple(seconds(end - start) for heard in passes for start, end in heard.passes_ns)
    share = statistics.median(durations) * 1000 / chunk_ms
    note = f"{share:.2f} s per second of sound, {tokens:.1f} tokens"
    demands = of_pass(chunk_ms, terms)
    yield Sample(ENGINE, stage, None, durations, tuple(terms.values()), SUM, note=note, demands=tuple(demands.values()))
    for part, term in terms.items():
        times = tuple(seconds(ns) for heard in passes for ns in heard.parts_ns[part])
        yield Sample(ENGINE, stage, part, times, (term,), demands=(demands[part],))
    after = law.a_pass(chunk_ms, statistics.mean(heard.tokens for heard in flushes))
    finals = tuple(seconds(heard.end_ns - heard.start_ns) for heard in flushes)
    flushed = tuple(of_pass(chunk_ms, after).values())
    yield Sample(ENGINE, f"flush at {chunk_ms} ms", None, finals, tuple(after.values()), SUM, demands=flushed)
