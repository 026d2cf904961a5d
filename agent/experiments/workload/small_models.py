"""The work of the default set-up's recogniser and voice: their graphs are run once at two sizes, and counted."""

from itertools import islice
from pathlib import Path

import numpy as np

from agent.asr.moonshine_graphs import SILENCE_S, Decoder, Encoder
from agent.asr.moonshine_sound import RATE_HZ, Frontend, Sound
from agent.experiments.workload.names import ONNX_FLOAT32, ONNX_INT8
from agent.experiments.workload.onnx_profile import GraphWork, count
from agent.tts.piper import PiperEngine
from agent.tts.protocol import Setup
from profiling import operations as op
from profiling.work_book import Linear, OperationWork, TermLaw

_SHORT_S, _LONG_S = 1, 4
_MANY = 9  # tokens of a draft
_TEXTS = ("One word.", "A sentence of some more words, which makes the voice say many patches of sound one by one.")


def moonshine(folder: Path, chunk_s: float) -> dict[str, OperationWork]:
    """One step: the front end over the chunk's new sound, the encoder over the segment, the decoder over its tokens."""

    def use() -> None:
        frontend = Frontend(folder / "frontend.onnx", 1)
        encoder, decoder = Encoder(folder / "encoder.onnx", 1), Decoder(folder / "decoder.onnx", 1)
        for length_s in (_SHORT_S, _LONG_S):
            noise = np.random.default_rng(0).normal(0, 0.1, length_s * RATE_HZ).astype(np.float32)
            encoded = encoder.run(Sound(frontend, noise))
        for draft in (1, _MANY):  # each in one run, with the start token before it
            once = iter((False, True))
            decoder.greedy(encoded, _MANY + 1, lambda once=once: next(once), draft=range(10, 10 + draft))

    runs = count(use)
    features = sum(runs["frontend"], GraphWork())
    encoder_runs, decoder_runs = runs["encoder"], runs["decoder"]
    heard = {op.ENCODED_S: (_SHORT_S + SILENCE_S, _LONG_S + SILENCE_S)}
    terms = [
        *_terms("features", features, features, {}, chunk_s / (_SHORT_S + _LONG_S)),
        *_terms("encoder", encoder_runs[0], encoder_runs[1], heard),
        *_terms("decoder", decoder_runs[0], decoder_runs[1], {op.TOKENS: (2, _MANY + 1)}),
    ]
    return {op.ASR_STEP: OperationWork(terms=tuple(terms), steps=Linear(constant=1))}


def piper(folder: Path) -> dict[str, OperationWork]:
    """The encoder grows with the phonemes; a phrase's first patch and its later ones have their sizes."""
    units: list[float] = []

    def use() -> None:
        engine = PiperEngine(folder)
        for text in _TEXTS:
            items = list(islice(engine.synthesise(text, lambda: False), 3))  # with one later patch
            units.extend(item.units for item in items if isinstance(item, Setup))

    runs = count(use)
    short, long = runs["encoder"]
    first, later = runs["decoder"][-2:]  # of the long phrase
    return {
        op.SETUP: OperationWork(terms=tuple(_terms("encode", short, long, {op.UNITS: (units[0], units[1])}))),
        op.FIRST_PATCH: OperationWork(terms=tuple(_terms("decode", first, first, {}))),
        op.PATCH: OperationWork(terms=tuple(_terms("decode", later, later, {}))),
    }


def _terms(
    part: str, small: GraphWork, large: GraphWork, sizes: dict[str, tuple[float, float]], scale: float = 1
) -> list[TermLaw]:
    """By number type, each a part of its own: straight lines through two runs of sizes in a unit; a constant without
    one."""
    found: list[TermLaw] = []
    mixed = f"{part}, float32" if large.int8.flops else part
    for name, rate, less, more in (
        (mixed, ONNX_FLOAT32, small.float32, large.float32),
        (part, ONNX_INT8, small.int8, large.int8),
    ):
        if more.flops:
            flops, read = _line(less.flops, more.flops, sizes, scale), _line(less.bytes, more.bytes, sizes, scale)
            found.append(TermLaw(part=name, rate=rate, flops=flops, bytes=read))
    return found


def _line(less: float, more: float, sizes: dict[str, tuple[float, float]], scale: float) -> Linear:
    if not sizes:
        return Linear(constant=less * scale)
    ((unit, (small, large)),) = sizes.items()
    slope = (more - less) / (large - small)
    return Linear(constant=less - slope * small, per={unit: slope} if slope else {})
