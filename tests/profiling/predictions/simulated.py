"""Runs and calibrations of a simulated machine: operations that follow their laws, with the noise of a shared one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from profiling.calibration import Calibration, FirstAudio, Sample
from profiling.environment import Machine
from profiling.interval import Interval
from profiling.operations import KV_BYTES, PREFILL, TOKEN, TOKENS
from profiling.predictions.conditions import Conditions
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook

NS = 1_000_000_000
LENGTHS = (3, 12, 5, 16, 7, 20, 9, 24, 4, 14, 6, 18)
READ, ARITHMETIC = "read", "bfloat16"
WEIGHT_BYTES, PARAMETERS = 7.0e9, 3.6e9
CEILINGS = {
    READ: Interval(value=905e9, low=900e9, high=910e9, n=6),
    ARITHMETIC: Interval(value=31.8e12, low=31.0e12, high=32.6e12, n=6),
}
BOOK = WorkBook(
    operations={
        TOKEN: OperationWork(
            terms=(
                TermLaw(
                    part="decode",
                    rate=ARITHMETIC,
                    flops=Linear(constant=2 * PARAMETERS),
                    bytes=Linear(constant=WEIGHT_BYTES, per={KV_BYTES: 1}),
                ),
            )
        ),
        PREFILL: OperationWork(
            terms=(
                TermLaw(
                    part="prefill",
                    rate=ARITHMETIC,
                    flops=Linear(per={TOKENS: 2 * PARAMETERS}),
                    bytes=Linear(constant=WEIGHT_BYTES),
                ),
            )
        ),
    }
)


@dataclass(frozen=True)
class Voice:
    """Seconds: set-up is `fixed_s + per_unit_s * units`; patches of so much sound take so long."""

    fixed_s: float = 0.23
    per_unit_s: float = 0.0
    first_sound_s: float = 0.16
    first_s: float = 0.076
    sound_s: float = 0.16
    patch_s: float = 0.076
    units_per_patch: float = 2.0


VOXCPM = Voice()
PIPER = Voice(0.004, 0.0005, 0.186, 0.006, 0.557, 0.0165, 7.0)


@dataclass
class Simulated:
    """`noise` is the standard deviation of an operation's time, `drift` that of the machine's speed from phrase to
    phrase; one operation in fifty takes half as long again."""

    seed: int
    voice: Voice = VOXCPM
    noise: float = 0.05
    drift: float = 0.02
    now_ns: int = NS
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def took(self, s: float, speed: float = 1.0) -> float:
        stalled = 1.5 if self.random.random() < 0.02 else 1.0
        return s * speed * stalled * float(np.exp(self.random.normal(0, self.noise)))

    def speed(self) -> float:
        return float(np.exp(self.random.normal(0, self.drift)))

    def phrase(self, patches: int, checks: bool = False) -> FirstAudio:
        voice, speed = self.voice, self.speed()
        units = round(voice.units_per_patch * patches + self.random.integers(-2, 3)) + 3
        setup_s = self.took(voice.fixed_s + voice.per_unit_s * units, speed)
        times = [voice.first_s] + [voice.patch_s] * (patches - 1)
        sounds = [voice.first_sound_s] + [voice.sound_s] * (patches - 1)
        ends = np.cumsum([setup_s] + [self.took(s, speed) for s in times])[1:]
        heard = np.cumsum(sounds)
        return FirstAudio(
            units=units,
            setup_s=setup_s,
            patch_ends_s=tuple(map(float, ends)),
            audio_ends_s=tuple(map(float, heard)),
            checks=checks,
        )

    def phrases(self, lengths: Sequence[int] = LENGTHS, kept: int = 3) -> list[FirstAudio]:
        return [self.phrase(n) for n in lengths] + [self.phrase(n, checks=True) for n in (6, 10, 18)[:kept]]

    def calibration(self, samples: Sequence[Sample] = (), **more: object) -> Calibration:
        machine = Machine(platform="x", cpu="x", cores=1, usable_cores=1)
        return Calibration(
            made="2026-03-01T10:15:02Z",
            machine=machine,
            engines={},
            samples=tuple(samples),
            phrases=tuple(self.phrases()),
            **more,  # type: ignore[arg-type]
        )

    def turn(
        self,
        index: int = 1,
        *,
        extra_patches: int = 0,
        prompt_tokens: int = 500,
        prefill_s: float | None = None,
        token_s: float = 0.01168,
        thoughts: int = 0,
        underrun_s: float = 0.0,
    ) -> Turn:
        """`extra_patches` are made before the first one is heard."""
        turn = Turn("simulated", index, self.now_ns, speech_end_ns=self.now_ns + NS, speech_end_estimated=False)
        self.now_ns += NS
        wait = self.add(turn, Stage.ENDPOINT_WAIT, 0.2, [])
        final = self.add(turn, Stage.ASR_FINALIZE, 0.05, [wait], attributes={v.ASR_ENCODED_S: 0.3, v.ASR_TOKENS: 4})
        if prefill_s is None:
            prefill_s = 0.04 + 2 * PARAMETERS * prompt_tokens / 31.8e12
        counts = {v.LLM_EVALUATED_TOKENS: prompt_tokens}
        cause = self.add(turn, Stage.LLM_PREFILL, self.took(prefill_s), [final], attributes=counts)
        if thoughts:
            cause = self.tokens(turn, Stage.LLM_THINKING, thoughts, token_s, cause)
            turn.describe(v.LLM, {v.UNSPOKEN_TOKENS: thoughts})
        cause = self.tokens(turn, Stage.LLM_FIRST_PHRASE, 12, token_s, cause)
        self.speak(turn, cause, extra_patches, underrun_s)
        return turn

    def tokens(self, turn: Turn, stage: Stage, count: int, token_s: float, cause: int) -> int:
        ends = np.cumsum([round(self.took(token_s) * 1e9) for _ in range(count)]).tolist()  # the first reads nothing
        attributes = {
            v.START_TIMES_NS: [0, *ends[:-1]],
            v.END_TIMES_NS: ends,
            v.LLM_KV_BYTES: [0, *(1e8 + 1e5 * n for n in range(1, count))],
        }
        return self.add(turn, stage, ends[-1] / 1e9, [cause], attributes=attributes)

    def speak(self, turn: Turn, cause: int, extra_patches: int, underrun_s: float) -> None:
        patches = int(self.random.integers(4, 16))
        said, voice = self.phrase(patches), self.voice
        extra_s = sum(self.took(voice.patch_s) for _ in range(extra_patches))
        setup = self.add(turn, Stage.TTS_SETUP, said.setup_s, [cause], phrase=0, attributes={v.TTS_UNITS: said.units})
        ends = [said.setup_s, *(end + extra_s for end in said.patch_ends_s)]
        first = self.add(turn, Stage.TTS_FIRST_PATCH, ends[1] - ends[0], [setup], phrase=0, attributes=_loop(ends[:2]))
        turn.first_audio_ns, turn.first_audio_step = self.now_ns, first
        self.add(turn, Stage.TTS_PATCHES, ends[-1] - ends[1], [first], phrase=0, attributes=_loop(ends[1:]))
        turn.describe(v.TTS, {v.TTS_PATCHES: patches, v.TTS_AUDIO_S: said.audio_ends_s[-1]}, phrase=0)
        turn.describe(v.PLAYOUT, {v.PLAYOUT_UNDERRUN_S: underrun_s})
        turn.end_ns, turn.end_reason = self.now_ns, EndReason.COMPLETED

    def add(self, turn: Turn, stage: Stage, s: float, causes: list[int], **more: object) -> int:
        start_ns = self.now_ns
        self.now_ns += round(s * 1e9)
        return turn.add(stage, start_ns, self.now_ns, causes, **more)  # type: ignore[arg-type]

    def turns(self, count: int = 10, **more: object) -> list[Turn]:
        return [self.turn(index, **more) for index in range(count)]  # type: ignore[arg-type]


def _loop(ends: Sequence[float]) -> dict[str, list[int]]:
    marks = [round((end - ends[0]) * 1e9) for end in ends]
    return {v.START_TIMES_NS: marks[:-1], v.END_TIMES_NS: marks[1:]}


def conditions(calibration: Calibration | None = None, **more: object) -> Conditions:
    return Conditions(BOOK, CEILINGS, calibration, **more)  # type: ignore[arg-type]
