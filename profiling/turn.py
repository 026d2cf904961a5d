"""Figures of one turn beside its latency: what each engine had to do and how fast it did it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.trace.vocabulary import EndReason, Stage

DECODE = (Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE)
SYNTHESIS = (Stage.TTS_SETUP, Stage.TTS_FIRST_PATCH, Stage.TTS_PATCHES)


@dataclass(frozen=True)
class TurnFacts:
    """None is a figure that the turn's timeline does not hold.

    `asr_encoded_ratio`: seconds of audio encoded per second of speech. `llm_tokens_per_s`: visible tokens over the
    time inside their own decode steps. `tts_setup_ns`: before the first phrase's first patch. `tts_real_time_factor`:
    seconds of synthesis (set-up included) per second of audio.
    """

    asr_chunk_s: float | None
    asr_partials: float | None
    asr_partials_skipped: float | None
    asr_encoded_ratio: float | None
    llm_prompt_tokens: float | None
    llm_cached_tokens: float | None
    llm_evaluated_tokens: float | None
    llm_output_tokens: float | None
    llm_unspoken_tokens: float | None
    llm_tokens_per_s: float | None
    tts_setup_ns: int | None
    tts_patches: float | None
    tts_audio_s: float | None
    tts_real_time_factor: float | None
    playout_underruns: float | None
    playout_buffer_s: float | None
    playout_leading_silence_s: float | None
    barge_in_stop_s: float | None
    heard_words: float | None
    reply_words: float | None


def turn_facts(turn: Turn) -> TurnFacts:
    decoded = [token for step in turn.steps if step.stage in DECODE for token in loop_ns(step) or ()]
    synthesis = [step for step in turn.steps if step.stage in SYNTHESIS]
    synthesis_ns = sum(sum(loop_ns(step) or (step.duration_ns,)) for step in synthesis)
    audio_s = described(turn, v.TTS, v.TTS_AUDIO_S)
    return TurnFacts(
        asr_chunk_s=described(turn, v.ASR, v.ASR_CHUNK_S),
        asr_partials=described(turn, v.ASR, v.ASR_PARTIALS),
        asr_partials_skipped=described(turn, v.ASR, v.ASR_PARTIALS_SKIPPED),
        asr_encoded_ratio=_ratio(described(turn, v.ASR, v.ASR_ENCODED_S), described(turn, v.ASR, v.ASR_SPEECH_S)),
        llm_prompt_tokens=described(turn, v.LLM, v.INPUT_TOKENS),
        llm_cached_tokens=described(turn, v.LLM, v.CACHED_TOKENS),
        llm_evaluated_tokens=described(turn, v.LLM, v.LLM_EVALUATED_TOKENS),
        llm_output_tokens=described(turn, v.LLM, v.OUTPUT_TOKENS),
        llm_unspoken_tokens=described(turn, v.LLM, v.UNSPOKEN_TOKENS),
        llm_tokens_per_s=_ratio(len(decoded) * 1e9, sum(decoded)),
        tts_setup_ns=next((step.duration_ns for step in synthesis if step.stage is Stage.TTS_SETUP), None),
        tts_patches=described(turn, v.TTS, v.TTS_PATCHES),
        tts_audio_s=audio_s,
        tts_real_time_factor=_ratio(synthesis_ns / 1e9, audio_s) if synthesis else None,
        playout_underruns=described(turn, v.PLAYOUT, v.PLAYOUT_UNDERRUNS),
        playout_buffer_s=described(turn, v.PLAYOUT, v.PLAYOUT_BUFFER_S),
        playout_leading_silence_s=described(turn, v.PLAYOUT, v.PLAYOUT_LEADING_SILENCE_S),
        barge_in_stop_s=_number(turn.attributes.get(v.TURN_BARGE_IN_STOP_S)),
        heard_words=_number(turn.attributes.get(v.TURN_HEARD_WORDS)),
        reply_words=_number(turn.attributes.get(v.TURN_REPLY_WORDS)),
    )


def counts(turn: Turn) -> bool:
    """Whether the turn's latency belongs in a summary: it was answered, aloud, after the user had finished."""
    return critical_path(turn) is not None and turn.end_reason not in (EndReason.CUT_OFF, EndReason.ERROR)


def described(turn: Turn, group: str, key: str) -> float | None:
    """A figure of a group's span, summed over the phrases where the group has one span per phrase."""
    values = [_number(attributes.get(key)) for (name, _), attributes in turn.groups.items() if name == group]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def loop_ns(step: Step) -> list[int] | None:
    """How long each pass of the step's loop (a token, a patch) took; None when the step did not record them."""
    starts, ends = _times(step.attributes.get(v.START_TIMES_NS)), _times(step.attributes.get(v.END_TIMES_NS))
    return [end - start for start, end in zip(starts, ends, strict=False)] if starts and ends else None


def _times(value: Attribute | None) -> list[int]:
    return [time for time in value if isinstance(time, int)] if isinstance(value, Sequence) else []


def _number(value: Attribute | None) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or denominator is None or denominator <= 0 else numerator / denominator
