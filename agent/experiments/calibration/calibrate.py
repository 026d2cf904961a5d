"""The calibration of a pipeline on a machine: every engine measured with nothing beside it."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from agent.engine_choice import choose
from agent.engines import Engines
from agent.experiments.calibration.budget import Budget
from agent.experiments.calibration.measure_asr import measure_asr
from agent.experiments.calibration.measure_listening import measure_listening
from agent.experiments.calibration.measure_llm import measure_decode, measure_prefill
from agent.experiments.calibration.measure_tts import measure_tts
from agent.experiments.calibration.on_worker import on_worker
from agent.experiments.calibration.onnx_rates import onnx_rates
from agent.experiments.workload.book import LLM, PREFILL
from agent.scenario import load_scenario
from agent.settings import Settings
from profiling import operations as op
from profiling.calibration import Calibration, FirstAudio, Rates, Sample
from profiling.environment import Machine
from profiling.machine.conditions import Conditions, disturbances, look
from profiling.trace.clock import NS_PER_S, Clock
from profiling.work_book import WorkBook

Tell = Callable[[str], None]

_ASR_S, _PREFILL_S, _DECODE_S, _TTS_S = 10.0, 8.0, 6.0, 14.0  # time for each; an engine's first round is always whole
_SCENARIOS = ("go-forward", "capital-cities")
_LONGEST_PROMPTS = 0.75  # of the longest: those that the arithmetic of llama.cpp is taken from


def calibrate(settings: Settings, engines: Engines, book: WorkBook, clock: Clock, tell: Tell) -> Calibration:
    """`settings` name a model for every stage; `engines` are theirs, loaded and warm, with threads of their own.

    Takes about a minute with the default engines; a slow engine is measured less often, and a model on a server, which
    others may use too, not at all.
    """
    began_ns = clock.now_ns()
    seen: list[Conditions] = []

    def begin(what: str) -> None:
        seen.append(look(clock))
        tell(what)

    sounds = [one.recording.samples for name in _SCENARIOS for one in load_scenario(name).utterances]
    begin("the listening models")
    samples = measure_listening(engines, sounds[0], clock)
    begin("the recogniser")
    samples += on_worker(engines.workers.asr, lambda: measure_asr(engines.asr, sounds, Budget(clock, _ASR_S)))
    prefills, tokens = _language_model(settings, engines, clock, begin)
    begin("the voice")
    said = on_worker(engines.workers.tts, lambda: measure_tts(engines.tts, Budget(clock, _TTS_S)))
    samples += [*prefills, *tokens, *(one for one in said if isinstance(one, Sample))]
    begin("the libraries' arithmetic")
    ceilings = tuple(_ceilings(settings, book, prefills, clock))
    seen.append(look(clock))
    return Calibration(
        made=datetime.fromtimestamp(clock.wall_ns() / NS_PER_S, UTC).isoformat(timespec="seconds"),
        machine=Machine.this(),
        engines={"asr": engines.asr.model, "llm": engines.llm.model, "tts": engines.tts.model},
        samples=tuple(samples),
        phrases=tuple(one for one in said if isinstance(one, FirstAudio)),
        ceilings=ceilings,
        warnings=tuple(disturbances(seen)),
        took_s=(clock.now_ns() - began_ns) / NS_PER_S,
    )


def _language_model(
    settings: Settings, engines: Engines, clock: Clock, tell: Tell
) -> tuple[list[Sample], list[Sample]]:
    if choose(settings).llm == "http":
        return [], []
    tell("the language model's prefill")
    prefills = on_worker(engines.workers.llm, lambda: measure_prefill(engines.llm, Budget(clock, _PREFILL_S)))
    tell("the language model's tokens")
    return prefills, on_worker(engines.workers.llm, lambda: measure_decode(engines.llm, Budget(clock, _DECODE_S)))


def _ceilings(settings: Settings, book: WorkBook, prefills: Sequence[Sample], clock: Clock) -> Iterable[Rates]:
    """Of the libraries that the engines compute with."""
    choice = choose(settings)
    counts = {settings.asr.threads} if choice.asr == "moonshine" else set[int]()
    counts |= {settings.tts.threads} if choice.tts == "piper" else set[int]()
    for threads in sorted(counts):
        yield from onnx_rates(clock, threads)
    work = book.operations.get(op.PREFILL)
    if book.llm is not None and work is not None and prefills:
        longest = max(sample.units[op.TOKENS] for sample in prefills)
        long = [sample for sample in prefills if sample.units[op.TOKENS] >= _LONGEST_PROMPTS * longest]
        flops = work.terms[0].flops
        yield Rates(
            name=max(book.llm.elements, key=lambda name: book.llm.elements[name] if book.llm else 0),
            unit="FLOP/s",
            device=book.devices[LLM],
            threads=book.threads[PREFILL],
            values=tuple(flops.at(sample.units) / sample.duration_s for sample in long),
        )
