"""A turn's critical path and what ran beside it, each stage with the work that its steps record."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.experiments.full_size.demands import Demand, TokenDemands, of_pass, of_patch, of_prefill, of_setup
from agent.experiments.full_size.samples import FIXED, OURS, PATCH_LOOP, SUM, WAIT, Sample
from agent.experiments.full_size.turn import Alone
from agent.experiments.workload.laws import AsrLaw, LlmLaw, TtsLaw
from agent.settings import Settings
from profiling.critical_path import CriticalPath, critical_path
from profiling.roofline import Term
from profiling.trace import vocabulary as v
from profiling.trace.clock import seconds
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import loop_ns

ENGINE = "turn"
_ASR = (Stage.ASR_PARTIAL, Stage.ASR_FINALIZE)
_DECODE = (Stage.LLM_THINKING, Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE)
_PATCHES = (Stage.TTS_FIRST_PATCH, Stage.TTS_PATCHES)
_NOTHING = (Stage.ASR_CHUNK_WAIT, Stage.PLAYOUT_BUFFER, Stage.PLAYOUT_LEADING_SILENCE)
_PARTS_OF = {
    **dict.fromkeys(_ASR, v.ASR_PART_NS),
    Stage.TTS_SETUP: v.TTS_SETUP_PART_NS,
    **dict.fromkeys(_PATCHES, v.TTS_PATCH_PART_NS),
}
_BESIDE = (Stage.ASR_PARTIAL, Stage.LLM_DECODE, Stage.TTS_PATCHES)


class TurnLaw:
    """What each step of a turn should have taken."""

    def __init__(
        self, asr: AsrLaw, llm: LlmLaw, tokens: TokenDemands, tts: TtsLaw, settings: Settings, alone: Alone
    ) -> None:
        self._asr, self._llm, self._tts = asr, llm, tts
        self._tokens = tokens
        self._settings = settings
        self._alone = alone

    def samples(self, turn: Turn) -> Iterator[Sample]:
        """The whole latency, then the stages of its path in order with their parts, then what ran beside it."""
        path = critical_path(turn)
        if path is None:
            return
        stages = list(self._on_path(turn, path))
        yield Sample(
            ENGINE,
            "latency",
            None,
            (seconds(path.total_ns),),
            tuple(term for sample in stages for term in sample.terms),
            law=SUM,
            stated_s=sum(sample.stated_s or 0 for sample in stages),
            demands=tuple(demand for sample in stages for demand in sample.demands),
        )
        on_path = {segment.step for segment in path.segments}
        for sample in stages:
            yield sample
            those = [step for step in turn.steps if step.stage == sample.stage and step.index in on_path]
            yield from self._parts(those)
        for stage in _BESIDE:
            beside = [step for step in turn.steps if step.stage == stage and step.index not in on_path]
            if beside:
                measured = (sum(seconds(_busy_ns(step)) for step in beside),)
                sample = self._sample(stage, beside, 0)
                yield replace(sample, measured_s=measured, note=f"{sample.note}, beside the path")
                yield from self._parts(beside)

    def _on_path(self, turn: Turn, path: CriticalPath) -> Iterator[Sample]:
        for stage, ns in path.totals.items():
            indices = [segment.step for segment in path.segments if segment.stage is stage]
            steps = [turn.steps[index] for index in indices if index is not None]
            sample = self._sample(stage, steps, len(indices))
            if stage is Stage.ENDPOINT_WAIT:
                sample = replace(sample, stated_s=self._hangover_s(turn), law=WAIT)
            yield replace(sample, measured_s=(seconds(ns),))

    def _sample(self, stage: Stage, steps: Sequence[Step], count: int) -> Sample:
        terms = tuple(term for step in steps for term in self._terms(step).values())
        demands = tuple(demand for step in steps for demand in self._demands(step).values())
        law, stated_s = (PATCH_LOOP if stage in _PATCHES else SUM, None) if len(terms) > 1 else (None, None)
        if stage in (Stage.HOST, Stage.QUEUE, Stage.UNATTRIBUTED) or (stage in _ASR and not terms):
            law, stated_s = OURS, 0.0
        elif stage in _NOTHING:
            law, stated_s = WAIT, 0.0
        elif stage is Stage.VAD:
            law, stated_s = FIXED, count * self._alone.vad_s
        elif stage is Stage.SMART_TURN:
            law, stated_s = FIXED, count * self._alone.smart_turn_s
        return Sample(ENGINE, stage, None, (), terms, law, stated_s, _counted(steps), demands)

    def _demands(self, step: Step) -> dict[str, Demand]:
        """By the names of `_terms`, and of the set-up its parts without work too."""
        passes, chunk_ms = len(loop_ns(step) or ()), self._settings.asr.chunk_ms
        if step.stage in _ASR:
            return of_pass(chunk_ms, self._a_pass(step, passes), passes)
        if step.stage is Stage.LLM_PREFILL:
            return {part: of_prefill(term) for part, term in self._terms(step).items()}
        if step.stage in _DECODE and (steps := _number(step, v.WORK_STEPS)):
            return {"decode": self._tokens.token(self._kv_bytes(step) / steps, steps)}
        if step.stage is Stage.TTS_SETUP:
            return of_setup(self._terms(step))
        if step.stage in _PATCHES:
            forwards = _numbers(step, v.TTS_FORWARDS)
            return of_patch(self._a_patch(step), int(forwards[0]), len(forwards))
        return {}

    def _terms(self, step: Step) -> dict[str, Term]:
        if step.stage in _ASR:
            passes = len(loop_ns(step) or ())
            return {part: term * passes for part, term in self._a_pass(step, passes).items()}
        if step.stage is Stage.LLM_PREFILL:
            return {"prefill": self._llm.prefill(int(_number(step, v.LLM_EVALUATED_TOKENS)))}
        if step.stage in _DECODE:
            steps = _number(step, v.WORK_STEPS)
            return {"decode": self._llm.token(self._kv_bytes(step) / steps) * steps} if steps else {}
        if step.stage is Stage.TTS_SETUP:
            return self._tts.setup(int(_number(step, v.TTS_UNITS)))
        if step.stage in _PATCHES:
            patches = len(_numbers(step, v.TTS_FORWARDS))
            return {part: term * patches for part, term in self._a_patch(step).items()}
        return {}

    def _a_pass(self, step: Step, passes: int) -> dict[str, Term]:
        """Of the step's passes; nothing where it had none."""
        tokens = _number(step, v.ASR_TOKENS) / max(1, passes)
        return self._asr.a_pass(self._settings.asr.chunk_ms, tokens) if passes else {}

    def _kv_bytes(self, step: Step) -> float:
        return _number(step, v.WORK_BYTES) - _number(step, v.WORK_STEPS) * self._llm.weight_bytes

    def _a_patch(self, step: Step) -> dict[str, Term]:
        forwards = _numbers(step, v.TTS_FORWARDS)
        return self._tts.patch(int(forwards[0]), first=step.stage is Stage.TTS_FIRST_PATCH)

    def _parts(self, steps: Sequence[Step]) -> Iterator[Sample]:
        """Those of a stage whose steps tell them, summed over the steps."""
        name = _PARTS_OF.get(steps[0].stage) if steps else None
        terms, demands = [self._terms(step) for step in steps], [self._demands(step) for step in steps]
        for part in dict.fromkeys(part for of_step in terms for part in of_step) if name else ():
            measured_s = sum(sum(_numbers(step, str(name).format(part))) for step in steps) / 1e9
            those = tuple(of_step[part] for of_step in terms if part in of_step)
            asked = tuple(of_step[part] for of_step in demands if part in of_step)
            yield Sample(ENGINE, steps[0].stage, part, (measured_s,), those, demands=asked)

    def _hangover_s(self, turn: Turn) -> float:
        """The silence that was chosen to end the turn."""
        waits = [step for step in turn.steps if step.stage is Stage.ENDPOINT_WAIT]
        chosen_s = waits[-1].attributes.get(v.ENDPOINT_WAIT_S) if waits else None
        return chosen_s if isinstance(chosen_s, float) else self._settings.endpoint.effective_hangover_s


def _busy_ns(step: Step) -> int:
    """Without the time in which the loop stood still for its consumer."""
    return sum(loop_ns(step) or (step.duration_ns,))


def _counted(steps: Sequence[Step]) -> str:
    for key, what in ((v.LLM_EVALUATED_TOKENS, "tokens"), (v.TTS_UNITS, "text tokens")):
        if counted := sum(int(_number(step, key)) for step in steps):
            return f"{counted} {what}"
    loops = {Stage.ASR_FINALIZE: "passes", Stage.ASR_PARTIAL: "passes", **dict.fromkeys(_DECODE, "tokens")}
    loops |= dict.fromkeys(_PATCHES, "patches")
    passes = sum(len(loop_ns(step) or ()) for step in steps)
    return f"{passes} {loops[steps[0].stage]}" if passes and steps[0].stage in loops else ""


def _number(step: Step, key: str) -> float:
    value = step.attributes.get(key, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _numbers(step: Step, key: str) -> list[float]:
    value = step.attributes.get(key, ())
    if isinstance(value, int | float):
        return [float(value)]
    return [float(one) for one in value if isinstance(one, int | float)]
