"""What the made-up turns of `long_run` are explained with, made up to go with them: the work of their operations, a
machine that they take nine tenths of, and the engines measured alone."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from profiling import operations as op
from profiling.calibration import CPU, Calibration, FirstAudio, Rates, Sample, ceiling_key
from profiling.environment import Machine
from profiling.machine.measured import BYTES_PER_S, FLOAT32, FLOPS_PER_S, MeasuredCeiling
from profiling.machine.probe import ProbeReading
from profiling.machine.survey import Survey
from profiling.roofline import READ
from profiling.work_book import Linear, ModelFigures, OperationWork, TermLaw, WorkBook
from tests.bench import long_run as made

BYTES_IN_A_S, FLOPS_IN_A_S, CACHE_BYTES = 40e9, 100e9, 32 << 20
_READ, _RATE = ceiling_key(READ, CPU, 1), ceiling_key(FLOAT32, CPU, 1)
_ABOUT = (0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03)  # of a value: one after the other when it is measured again
_FORWARD_S, _PATCH_REST_S = 0.006, made.PATCH_NS / 1e9 - made.FORWARDS * 0.006
_UNITS, _UNIT_FLOPS = (10, 20, 30, 40, 60, 80, 100), 1e7


def work_book() -> WorkBook:
    """Reading takes nine tenths of a token's time, arithmetic most of a prompt's, serial steps most of a patch's."""
    token_bytes = 0.9 * made.TOKEN_NS / 1e9 * BYTES_IN_A_S - made.DEEPEST_KV_BYTES
    prompt_flops = 0.9 * made.PREFILL_NS / 1e9 * FLOPS_IN_A_S / made.PROMPT_TOKENS
    operations = {
        op.ASR_STEP: _work(flops=Linear(per={op.PASSES: 1e9}), steps=Linear(per={op.PASSES: 1})),
        op.PREFILL: _work(flops=Linear(per={op.TOKENS: prompt_flops})),
        op.TOKEN: _work(flops=Linear(constant=1e8), read=Linear(constant=token_bytes, per={op.KV_BYTES: 1})),
        op.SETUP: _work(flops=Linear(per={op.UNITS: _UNIT_FLOPS})),
        op.FIRST_PATCH: _patch(),
        op.PATCH: _patch(),
    }
    figures = ModelFigures(parameters=5e7, weight_bytes=token_bytes, elements={"Q8_0": token_bytes * 8 / 8.5})
    engines: tuple[str, ...] = ("asr", "llm", "prefill", "tts")
    threads, devices = dict.fromkeys(engines, 1), dict.fromkeys(engines, CPU)
    return WorkBook(operations=operations, llm=figures, threads=threads, devices=devices)


def calibration() -> Calibration:
    return Calibration(
        made="",
        machine=Machine.this(),
        engines={"asr": "recogniser", "llm": "model", "tts": "voice"},
        samples=tuple(_samples()),
        phrases=tuple(_phrase(units, checks=units == _UNITS[2]) for units in _UNITS),
    )


def survey() -> Survey:
    rates = {READ: (BYTES_PER_S, BYTES_IN_A_S), FLOAT32: (FLOPS_PER_S, FLOPS_IN_A_S)}
    ceilings = [
        MeasuredCeiling.of_values(name, unit, _again(rate), kernel="made up") for name, (unit, rate) in rates.items()
    ]
    probe = ProbeReading(at_ns=0, took_s=0.5, rates=tuple(_rates(name, *of) for name, of in rates.items()))
    return Survey(
        made=datetime(2026, 1, 1, tzinfo=UTC),
        machine=Machine.this(),
        cache_bytes=CACHE_BYTES,
        ceilings=tuple(ceilings),
        probes=(probe, probe),
    )


def probes() -> Sequence[ProbeReading]:
    """Of the run: the machine was what it had been."""
    return survey().probes


def _samples() -> Iterator[Sample]:
    """Every operation alone takes as long as in the turns."""
    for about in _ABOUT:
        for passes in (1, 2, 3):
            yield _sample(op.ASR_STEP, about * passes * made.CHUNK_NS / 1e9, {op.PASSES: passes})
        for tokens in (15, 30, 60):
            seconds = made.PREFILL_NS / 1e9 * tokens / made.PROMPT_TOKENS
            yield _sample(op.PREFILL, about * seconds, {op.TOKENS: tokens})
        for share in (0.0, 0.5, 1.0):
            yield _sample(op.TOKEN, about * made.TOKEN_NS / 1e9, {op.KV_BYTES: share * made.DEEPEST_KV_BYTES})
        for units in _UNITS:
            yield _sample(op.SETUP, about * _setup_s(units), {op.UNITS: units})
        for forwards in (5, 7, 9):
            seconds = about * (_PATCH_REST_S + forwards * _FORWARD_S)
            for name in (op.FIRST_PATCH, op.PATCH):
                yield _sample(name, seconds, {op.FORWARDS: forwards})


def _sample(operation: str, seconds: float, units: dict[str, float]) -> Sample:
    return Sample(operation=operation, duration_s=seconds, units=units)


def _phrase(units: int, checks: bool) -> FirstAudio:
    setup_s, patch_s = _setup_s(units), made.PATCH_NS / 1e9
    patches = range(1, 2 + units // 10)
    return FirstAudio(
        units=units,
        setup_s=setup_s,
        patch_ends_s=tuple(setup_s + number * patch_s for number in patches),
        audio_ends_s=tuple(made.PATCH_AUDIO_S * number for number in patches),
        checks=checks,
    )


def _setup_s(units: float) -> float:
    """Most of it whatever the text, as that of a phrase of the turns."""
    return made.SETUP_NS / 1e9 + _UNIT_FLOPS * (units - made.PHRASE_UNITS) / FLOPS_IN_A_S


def _patch() -> OperationWork:
    steps = Linear(constant=1, per={op.FORWARDS: 1})
    return _work(flops=Linear(constant=1e8), read=Linear(constant=5e7, per={op.FORWARDS: 2e7}), steps=steps)


def _work(*, flops: Linear, read: Linear | None = None, steps: Linear | None = None) -> OperationWork:
    term = TermLaw(part="all", rate=_RATE, read=_READ, flops=flops, bytes=read or Linear())
    return OperationWork(terms=(term,), steps=steps or Linear(constant=1))


def _rates(name: str, unit: str, rate: float) -> Rates:
    return Rates(name=name, unit=unit, device=CPU, threads=1, values=tuple(_again(rate)))


def _again(value: float) -> list[float]:
    return [about * value for about in _ABOUT]
