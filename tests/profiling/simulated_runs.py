"""Runs as engines with known laws would have made them, with noise or without: what is asked can really be done."""

import random
from dataclasses import dataclass, replace

from profiling.evidence import Evidence
from profiling.interval import Interval
from profiling.operations import KV_BYTES, PREFILL, TOKEN, TOKENS
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.work_book import Linear, ModelFigures, OperationWork, TermLaw, WorkBook

NS = 1_000_000_000
READ, RATE = "read, 4 threads", "Q4_0, 4 threads"
ELEMENTS, VECTORS = 1.0e9, 1.0e6


@dataclass(frozen=True)
class Pipeline:
    """What decides the times, in SI units. A token reads the weights and its KV cache and costs `token_fixed_s` above
    that; a tag of `tag_tokens`, before a thought and after it, is one batch; a patch goes `diffusion_steps - 1` times
    through its diffusion module."""

    hangover_s: float = 0.2
    chunk_s: float = 0.32
    flush: bool = True
    asr_pass_s: float = 0.03
    bandwidth: float = 40e9
    flops: float = 400e9
    bits: float = 4.5
    kv_per_token: float = 100e3
    prompt_tokens: int = 60
    prefill_fixed_s: float = 0.02
    token_fixed_s: float = 0.004
    thinking: int = 0
    tag_tokens: int = 0
    tag_s: float = 0.03
    phrase_tokens: int = 8
    setup_s: float = 0.05
    forward_s: float = 0.006
    patch_fixed_s: float = 0.02
    diffusion_steps: int = 10
    noise: float = 0.0

    @property
    def weight_bytes(self) -> float:
        return ELEMENTS * self.bits / 8 + VECTORS * 4

    def token_s(self, kv_bytes: float) -> float:
        read_s, computed_s = (self.weight_bytes + kv_bytes) / self.bandwidth, 2 * ELEMENTS / self.flops
        return max(read_s, computed_s) + self.token_fixed_s

    def batch(self, depth: int, tokens: int) -> list[float]:
        """KV bytes by token: the first has what all of them read."""
        return [depth * self.kv_per_token, *[0.0] * (tokens - 1)] if tokens else []

    def prefill_s(self) -> float:
        return (
            max(self.weight_bytes / self.bandwidth, 2 * ELEMENTS * self.prompt_tokens / self.flops)
            + self.prefill_fixed_s
        )


def run(pipeline: Pipeline, turns: int = 1, seed: int = 0) -> list[Turn]:
    rng = random.Random(seed)
    return [_Simulation(pipeline, rng, number).turn for number in range(1, turns + 1)]


def evidence(pipeline: Pipeline, unsure: float = 0.0) -> Evidence:
    """The ceilings are known to within a share of their values."""
    decode = TermLaw(
        part="decode",
        rate=RATE,
        read=READ,
        flops=Linear(constant=2 * ELEMENTS),
        bytes=Linear(constant=pipeline.weight_bytes, per={KV_BYTES: 1.0}),
    )
    prefill = TermLaw(
        part="prefill",
        rate=RATE,
        read=READ,
        flops=Linear(per={TOKENS: 2 * ELEMENTS}),
        bytes=Linear(constant=pipeline.weight_bytes),
    )
    book = WorkBook(
        operations={TOKEN: OperationWork(terms=(decode,)), PREFILL: OperationWork(terms=(prefill,))},
        llm=ModelFigures(
            parameters=ELEMENTS, weight_bytes=pipeline.weight_bytes, elements={"Q4_0": ELEMENTS, "F32": VECTORS}
        ),
    )
    return Evidence(book, None, {READ: _about(pipeline.bandwidth, unsure), RATE: _about(pipeline.flops, unsure)})


def _about(value: float, unsure: float) -> Interval:
    return Interval(value=value, low=value * (1 - unsure), high=value * (1 + unsure), n=10)


class _Simulation:
    def __init__(self, pipeline: Pipeline, rng: random.Random, number: int) -> None:
        self.p, self.rng = pipeline, rng
        start = number * 100 * NS
        self.turn = Turn("c", number, start, speech_end_ns=start + NS, speech_end_estimated=False)
        self.now = start + NS
        self._listen()
        self._think()
        self._speak()
        self.turn.end_ns, self.turn.end_reason = self.now + NS, EndReason.COMPLETED

    def _listen(self) -> None:
        p, turn, speech_end = self.p, self.turn, self.now
        self.cause = turn.add(Stage.ENDPOINT_WAIT, self.now, self._later(p.hangover_s), attributes={v.WHAT: "hangover"})
        if not p.flush:
            chunk_end = speech_end + round(self.rng.uniform(0, p.chunk_s) * NS)
            waited = max(self.now, chunk_end)
            self.cause = turn.add(Stage.ASR_CHUNK_WAIT, self.now, waited, [self.cause])
            self.now = waited
        passes = {v.START_TIMES_NS: [0], v.END_TIMES_NS: [1], v.ASR_ENCODED_S: p.chunk_s, v.ASR_TOKENS: 3}
        self._add(Stage.ASR_FINALIZE, p.asr_pass_s, passes)
        self._add(Stage.HOST, 0.001, {v.WHAT: "prompt"})
        turn.describe(v.ENDPOINT, {v.ENDPOINT_KIND: "hangover", v.ENDPOINT_HANGOVER_S: p.hangover_s})
        turn.describe(v.ASR, {v.MODEL: "nemotron", v.ASR_CHUNK_S: p.chunk_s, v.ASR_RIGHT_CONTEXT: 3})

    def _think(self) -> None:
        p = self.p
        self._add(Stage.LLM_PREFILL, p.prefill_s(), {v.LLM_EVALUATED_TOKENS: p.prompt_tokens})
        depth = p.prompt_tokens
        for stage, count in ((Stage.LLM_THINKING, p.thinking), (Stage.LLM_FIRST_PHRASE, p.phrase_tokens)):
            if not count:
                continue
            tag = p.tag_tokens if stage is Stage.LLM_THINKING else 0
            kv = [(depth + tag + k) * p.kv_per_token for k in range(count)]
            opening, closing = (p.batch(end - 1, tag) for end in (depth + tag, depth + count + 2 * tag))
            read: dict[str, Attribute] = {v.LLM_KV_BYTES: [*opening, *kv, *closing]}
            if tag:
                read |= {v.LLM_OPENING_TAG_TOKENS: tag, v.LLM_CLOSING_TAG_TOKENS: tag}
            tags = [[p.tag_s / tag + bytes_read / p.bandwidth for bytes_read in one] for one in (opening, closing)]
            self._loop(stage, [*tags[0], *[p.token_s(b) for b in kv], *tags[1]], read)
            depth += count + 2 * tag
        self.turn.describe(v.LLM, {v.MODEL: "gemma"})

    def _speak(self) -> None:
        p, turn = self.p, self.turn
        self._add(Stage.TTS_SETUP, p.setup_s, {v.TTS_UNITS: 20}, phrase=0)
        forwards = p.diffusion_steps - 1
        diffusion = p.forward_s * forwards
        self._loop(Stage.TTS_FIRST_PATCH, [diffusion + p.patch_fixed_s], {v.TTS_FORWARDS: [forwards]}, diffusion, 0)
        first, sound = self.cause, self.now
        self._loop(Stage.TTS_PATCHES, [diffusion + p.patch_fixed_s] * 4, {v.TTS_FORWARDS: [forwards] * 4}, diffusion, 0)
        needed_s = (diffusion + p.patch_fixed_s) * 1.25
        later = turn.steps[-1]
        ends = [later.start_ns + int(end) for end in later.attributes[v.END_TIMES_NS]]
        patches = -(-needed_s // 0.16)
        started = sound if patches <= 1 else ends[int(patches) - 2]
        buffer = turn.add(Stage.PLAYOUT_BUFFER, sound, started, [first])
        silence = turn.add(Stage.PLAYOUT_LEADING_SILENCE, started, started + NS // 50, [buffer])
        turn.first_audio_step, turn.first_audio_ns = silence, started + NS // 50
        turn.describe(v.TTS, {v.MODEL: "voxcpm2", v.TTS_DIFFUSION_STEPS: p.diffusion_steps}, phrase=0)
        turn.describe(v.TTS, {v.TTS_PATCHES: 5, v.TTS_AUDIO_S: 0.8}, phrase=0)
        turn.describe(v.PLAYOUT, {v.PLAYOUT_BUFFER_S: needed_s})

    def _later(self, seconds: float) -> int:
        self.now += round(seconds * NS)
        return self.now

    def _noisy(self, seconds: float) -> float:
        return seconds * self.rng.lognormvariate(0, self.p.noise) if self.p.noise else seconds

    def _add(self, stage: Stage, seconds: float, attributes: dict[str, Attribute], phrase: int | None = None) -> None:
        start = self.now
        end = self._later(self._noisy(seconds))
        self.cause = self.turn.add(stage, start, end, [self.cause], phrase=phrase, attributes=attributes)

    def _loop(
        self,
        stage: Stage,
        seconds: list[float],
        attributes: dict[str, Attribute],
        diffusion_s: float | None = None,
        phrase: int | None = None,
    ) -> None:
        """All passes are disturbed together, and each by itself."""
        start, together = self.now, self._noisy(1.0)
        factors = [together * self._noisy(1.0) for _ in seconds]
        starts, ends = [], []
        for each, factor in zip(seconds, factors, strict=True):
            starts.append(self.now - start)
            ends.append(self._later(each * factor) - start)
        if diffusion_s is not None:
            name = v.TTS_PATCH_PART_NS.format("diffusion")
            attributes = {**attributes, name: [round(diffusion_s * factor * NS) for factor in factors]}
        times: dict[str, Attribute] = {v.START_TIMES_NS: starts, v.END_TIMES_NS: ends}
        self.cause = self.turn.add(
            stage, start, self.now, [self.cause], phrase=phrase, attributes={**attributes, **times}
        )


def changed(pipeline: Pipeline, **values: float) -> Pipeline:
    return replace(pipeline, **values)  # type: ignore[arg-type]
