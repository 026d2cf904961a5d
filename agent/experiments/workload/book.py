"""The work book of a pipeline: what each operation of its engines has to read and to compute."""

from collections.abc import Callable, Mapping, Sequence

from agent.devices import CPU, numbered
from agent.engine_choice import Choice, choose, places
from agent.experiments.workload import small_models
from agent.experiments.workload.kept import kept
from agent.llm.gguf import usable_cores
from agent.models.chosen import asr_model, llm_file, tts_folder
from agent.settings import Settings
from profiling import operations as op
from profiling.calibration import ceiling_key
from profiling.roofline import READ, Term
from profiling.work_book import Linear, ModelFigures, OperationWork, TermLaw, WorkBook

ASR, LLM, PREFILL, TTS = "asr", "llm", "prefill", "tts"

TermsOf = Callable[[Mapping[str, float]], Mapping[str, Term]]


def work_book(settings: Settings) -> WorkBook:
    """For settings that name a model for every stage. What is not known, a server's model for one, has no entry."""
    choice, at = choose(settings), places(settings)
    llm, llm_figures = _llm(settings, choice)
    threads = {
        ASR: settings.asr.threads,
        LLM: settings.llm.threads or max(1, usable_cores() - 1),
        PREFILL: settings.llm.prefill_threads or settings.llm.threads or usable_cores(),
        TTS: settings.tts.threads,
    }
    llm_at = numbered(at.llm or CPU)
    devices = {ASR: numbered(at.asr), LLM: llm_at, PREFILL: llm_at, TTS: numbered(at.tts)}
    found: dict[str, OperationWork] = {}
    for engine, operations in ((ASR, _asr(settings, choice)), (LLM, llm), (TTS, _tts(settings, choice))):
        for name, work in operations.items():
            counted = PREFILL if name == op.PREFILL else engine
            arithmetic = PREFILL if engine == LLM else engine  # llama.cpp's is measured in prefill alone
            found[name] = _placed(work, devices[engine], threads[arithmetic], threads[counted])
    return WorkBook(operations=found, llm=llm_figures, threads=threads, devices=devices)


def _asr(settings: Settings, choice: Choice) -> dict[str, OperationWork]:
    asr = settings.asr
    if choice.asr == "moonshine":
        folder, chunk_s = asr_model(settings), asr.chunk_ms / 1000
        return kept(folder, {"chunk_s": chunk_s}, lambda: small_models.moonshine(folder, chunk_s))
    if asr.mode != "cache-aware":
        return {}
    from agent.experiments.workload.laws import AsrLaw

    law = AsrLaw(asr_model(settings))

    def passes(units: Mapping[str, float]) -> Mapping[str, Term]:
        count = units[op.PASSES]
        terms = law.a_pass(asr.chunk_ms, units[op.TOKENS] / count)
        return {part: term * count for part, term in terms.items()}

    steps = Linear(per={op.PASSES: 1})
    return {op.ASR_STEP: OperationWork(terms=_linear(passes, (op.PASSES, op.TOKENS)), steps=steps)}


def _llm(settings: Settings, choice: Choice) -> tuple[dict[str, OperationWork], ModelFigures | None]:
    if choice.llm != "llama":
        return {}, None
    from agent.experiments.workload.laws import LlmLaw

    law = LlmLaw(llm_file(settings))
    if not law.weight_bytes:
        return {}, None
    prefill = _linear(lambda units: {"prefill": law.prefill(int(units[op.TOKENS]))}, (op.TOKENS,))
    token = _linear(lambda units: {"decode": law.token(units[op.KV_BYTES])}, (op.KV_BYTES,))
    figures = ModelFigures(
        parameters=law.parameters + law.head_parameters,
        weight_bytes=law.weight_bytes,
        elements={name: float(count) for name, count in law.elements.items()},
    )
    return {op.PREFILL: OperationWork(terms=prefill), op.TOKEN: OperationWork(terms=token)}, figures


def _tts(settings: Settings, choice: Choice) -> dict[str, OperationWork]:
    folder = tts_folder(settings)
    if choice.tts == "piper":
        return kept(folder, {}, lambda: small_models.piper(folder))
    from agent.experiments.workload.laws import TtsLaw

    law = TtsLaw(folder)
    steps = Linear(constant=1, per={op.FORWARDS: 1})  # the forwards, and what is around them

    def patch(first: bool) -> OperationWork:
        terms = _linear(lambda units: law.patch(int(units[op.FORWARDS]), first=first), (op.FORWARDS,))
        return OperationWork(terms=terms, steps=steps)

    setup = _linear(lambda units: law.setup(int(units[op.UNITS])), (op.UNITS,))
    return {op.SETUP: OperationWork(terms=setup), op.FIRST_PATCH: patch(True), op.PATCH: patch(False)}


def _linear(terms_of: TermsOf, units: Sequence[str]) -> tuple[TermLaw, ...]:
    """Work that is linear in its units, from its values at 1 and 2 of each."""
    once = terms_of(dict.fromkeys(units, 1.0))
    more = {unit: terms_of(dict.fromkeys(units, 1.0) | {unit: 2.0}) for unit in units}
    found: list[TermLaw] = []
    for part, term in once.items():
        flops = {unit: terms[part].work.flops - term.work.flops for unit, terms in more.items()}
        read = {unit: terms[part].work.bytes - term.work.bytes for unit, terms in more.items()}
        found.append(
            TermLaw(
                part=part,
                rate=term.rate,
                read=term.read,
                flops=Linear(constant=term.work.flops - sum(flops.values()), per=flops),
                bytes=Linear(constant=term.work.bytes - sum(read.values()), per=read),
            )
        )
    return tuple(found)


def _placed(work: OperationWork, device: str, compute_threads: int, read_threads: int) -> OperationWork:
    """The same, its ceilings those of the place where it is done."""
    terms = tuple(
        term.model_copy(
            update={
                "rate": ceiling_key(term.rate, device, compute_threads),
                "read": ceiling_key(READ, device, read_threads),
            }
        )
        for term in work.terms
    )
    return work.model_copy(update={"terms": terms})
