"""Figures of one turn beside its latency: what each engine had to do and how fast it did it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from operator import sub
from statistics import median
from typing import cast

from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.trace.vocabulary import EndReason, Stage

RECOGNITION = (Stage.ASR_PARTIAL, Stage.ASR_FINALIZE)
DECODE = (Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE)
SYNTHESIS = (Stage.TTS_SETUP, Stage.TTS_FIRST_PATCH, Stage.TTS_PATCHES)


@dataclass(frozen=True)
class TurnFacts:
    """None is a figure that the turn's timeline does not hold, or does not tell well enough.

    `asr_encoded_ratio`: seconds of audio encoded per second of speech. `llm_tokens_per_s`: visible tokens over the
    time inside their own decode steps (`_per_second`). `tts_setup_ns`: before the first phrase's first patch.
    `tts_real_time_factor`: seconds of synthesis (set-up included) per second of audio. `asr_final_after_s`: end of
    speech to final transcript. `llm_weight_bytes`: read per token; `llm_kv_bytes`: the most read for one.
    `asr_parts_ns` are sums over the turn, `tts_setup_parts_ns` those of the first phrase, `tts_patch_parts_ns` medians
    over the later patches, or over the first ones where there are no others; they are empty where unknown.
    """

    asr_chunk_s: float | None
    asr_partials: float | None
    asr_partials_skipped: float | None
    asr_encoded_ratio: float | None
    asr_right_context: float | None
    asr_chunks: float | None
    asr_final_after_s: float | None
    asr_parts_ns: Mapping[str, int]
    llm_prompt_tokens: float | None
    llm_cached_tokens: float | None
    llm_evaluated_tokens: float | None
    llm_output_tokens: float | None
    llm_unspoken_tokens: float | None
    llm_tokens_per_s: float | None
    llm_weight_bytes: float | None
    llm_kv_bytes: float | None
    llm_drafted_tokens: float | None
    llm_accepted_tokens: float | None
    tts_setup_ns: int | None
    tts_setup_parts_ns: Mapping[str, int]
    tts_patches: float | None
    tts_patch_parts_ns: Mapping[str, int]
    tts_forwards: float | None
    tts_audio_s: float | None
    tts_real_time_factor: float | None
    playout_underruns: float | None
    playout_buffer_s: float | None
    playout_leading_silence_s: float | None
    playout_pauses: float | None
    playout_paused_s: float | None
    barge_in_stop_s: float | None
    heard_words: float | None
    reply_words: float | None


def turn_facts(turn: Turn) -> TurnFacts:
    decoded = [token for step in turn.steps if step.stage in DECODE for token in loop_ns(step) or ()]
    synthesis = [step for step in turn.steps if step.stage in SYNTHESIS]
    synthesis_ns = sum(sum(loop_ns(step) or (step.duration_ns,)) for step in synthesis)
    setup = [step for step in synthesis if step.stage is Stage.TTS_SETUP]
    patches = [step for step in synthesis if step.stage is Stage.TTS_PATCHES] or synthesis
    audio_s = described(turn, v.TTS, v.TTS_AUDIO_S)
    return TurnFacts(
        asr_chunk_s=described(turn, v.ASR, v.ASR_CHUNK_S),
        asr_partials=described(turn, v.ASR, v.ASR_PARTIALS),
        asr_partials_skipped=described(turn, v.ASR, v.ASR_PARTIALS_SKIPPED),
        asr_encoded_ratio=_ratio(described(turn, v.ASR, v.ASR_ENCODED_S), described(turn, v.ASR, v.ASR_SPEECH_S)),
        asr_right_context=described(turn, v.ASR, v.ASR_RIGHT_CONTEXT),
        asr_chunks=described(turn, v.ASR, v.ASR_CHUNKS),
        asr_final_after_s=described(turn, v.ASR, v.ASR_FINAL_AFTER_S),
        asr_parts_ns=_summed(_by_part([s for s in turn.steps if s.stage in RECOGNITION], v.ASR_PART_NS)),
        llm_prompt_tokens=described(turn, v.LLM, v.INPUT_TOKENS),
        llm_cached_tokens=described(turn, v.LLM, v.CACHED_TOKENS),
        llm_evaluated_tokens=described(turn, v.LLM, v.LLM_EVALUATED_TOKENS),
        llm_output_tokens=described(turn, v.LLM, v.OUTPUT_TOKENS),
        llm_unspoken_tokens=described(turn, v.LLM, v.UNSPOKEN_TOKENS),
        llm_tokens_per_s=_per_second(decoded),
        llm_weight_bytes=described(turn, v.LLM, v.LLM_WEIGHT_BYTES),
        llm_kv_bytes=_last_kv_bytes(turn),
        llm_drafted_tokens=described(turn, v.LLM, v.LLM_DRAFTED_TOKENS),
        llm_accepted_tokens=described(turn, v.LLM, v.LLM_ACCEPTED_TOKENS),
        tts_setup_ns=setup[0].duration_ns if setup else None,
        tts_setup_parts_ns=_summed(_by_part(setup[:1], v.TTS_SETUP_PART_NS)),
        tts_patches=described(turn, v.TTS, v.TTS_PATCHES),
        tts_patch_parts_ns={part: round(median(ns)) for part, ns in _by_part(patches, v.TTS_PATCH_PART_NS).items()},
        tts_forwards=_median_forwards(synthesis),
        tts_audio_s=audio_s,
        tts_real_time_factor=_ratio(synthesis_ns / 1e9, audio_s) if synthesis else None,
        playout_underruns=described(turn, v.PLAYOUT, v.PLAYOUT_UNDERRUNS),
        playout_buffer_s=described(turn, v.PLAYOUT, v.PLAYOUT_BUFFER_S),
        playout_leading_silence_s=described(turn, v.PLAYOUT, v.PLAYOUT_LEADING_SILENCE_S),
        playout_pauses=described(turn, v.PLAYOUT, v.PLAYOUT_PAUSES),
        playout_paused_s=described(turn, v.PLAYOUT, v.PLAYOUT_PAUSED_S),
        barge_in_stop_s=_number(turn.attributes.get(v.TURN_BARGE_IN_STOP_S)),
        heard_words=_number(turn.attributes.get(v.TURN_HEARD_WORDS)),
        reply_words=_number(turn.attributes.get(v.TURN_REPLY_WORDS)),
    )


def counts(turn: Turn) -> bool:
    """Whether the turn's latency belongs in a summary: it was answered, aloud, after the user had finished."""
    return critical_path(turn) is not None and turn.end_reason not in (EndReason.CUT_OFF, EndReason.ERROR)


def described(turn: Turn, group: str, key: str) -> float | None:
    """A figure of a group's span, summed over the phrases where the group has one span per phrase."""
    told = [attributes[key] for (name, _), attributes in turn.groups.items() if name == group and key in attributes]
    known = [number for value in told if (number := _number(value)) is not None]
    return sum(known) if known else None


def loop_ns(step: Step) -> list[int] | None:
    """How long each pass of the step's loop (a token, a patch) took; None when the step did not record them."""
    starts, ends = _times(step.attributes.get(v.START_TIMES_NS)), _times(step.attributes.get(v.END_TIMES_NS))
    return list(map(sub, ends, starts)) if starts and ends else None


def _by_part(steps: Sequence[Step], name: str) -> dict[str, list[int]]:
    """Durations by part, in the order in which the parts first appear; `name` has a place for the part."""
    before, after = name.split("{}")
    parts: dict[str, list[int]] = {}
    for step in steps:
        for key, value in step.attributes.items():
            if key.startswith(before) and key.endswith(after):
                known = _times(value) if isinstance(value, Sequence) else [value] if isinstance(value, int) else []
                parts.setdefault(key[len(before) : -len(after)], []).extend(known)
    return {part: ns for part, ns in parts.items() if ns}


def _summed(parts: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {part: sum(ns) for part, ns in parts.items()}


def _last_kv_bytes(turn: Turn) -> float | None:
    known = [_times(step.attributes.get(v.LLM_KV_BYTES)) for step in turn.steps if step.stage in DECODE]
    return max((max(values) for values in known if values), default=None)


def _median_forwards(steps: Sequence[Step]) -> float | None:
    known = [count for step in steps for count in _times(step.attributes.get(v.TTS_FORWARDS))]
    return median(known) if known else None


def _times(value: Attribute | None) -> Sequence[int]:
    if isinstance(value, tuple) and set(map(type, value)) == {int}:
        return cast(tuple[int, ...], value)
    return [time for time in value if isinstance(time, int)] if isinstance(value, Sequence) else []


def _number(value: Attribute | None) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _per_second(passes_ns: Sequence[int]) -> float | None:
    """Passes over their time. A pass that took none came together with the one before, or was there before it was
    waited for: the first ones are not counted, and where more than a tenth of the others are such, None."""
    later = list(dropwhile(lambda ns: ns <= 0, passes_ns))
    untimed = sum(ns <= 0 for ns in later)
    return None if 10 * untimed > len(later) else _ratio(len(later) * 1e9, sum(later))


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or denominator is None or denominator <= 0 else numerator / denominator
