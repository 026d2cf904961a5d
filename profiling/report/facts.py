"""What each engine did in a turn, one line per engine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from profiling.report.endpoint import endpoint_line
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason
from profiling.turn import TurnFacts, turn_facts

_PART_NAMES = {
    "stop_check": "stop check",
    "base_lm": "base LM",
    "residual_lm": "residual LM",
    "local_encoder": "local encoder",
    "vae": "VAE",
}


def fact_lines(turn: Turn, none: str) -> dict[str, str]:
    """Lines by label. A figure that the turn does not hold is shown as `none`, a line without any as `none` alone."""
    facts, say = turn_facts(turn), _Words(none)
    lines = {
        **({"endpoint": line} if (line := endpoint_line(turn)) else {}),
        "ASR": _recognition(facts, say),
        "LLM": _language_model(facts, say),
        "voice": _voice(facts, say),
        **{label: line for label, line in _details(facts, say) if line},
        "playout": _playout(facts, say),
        **({"heard": line} if (line := _heard(turn, say)) else {}),
    }
    if turn.end_reason is EndReason.INTERRUPTED:
        lines["barge-in"] = _barge_in(facts, say)
    shown = {label: line if any(c.isdigit() for c in line) else none for label, line in lines.items()}
    if v.TURN_ERROR in turn.attributes:
        shown["error"] = str(turn.attributes[v.TURN_ERROR])
    return shown


@dataclass(frozen=True)
class _Words:
    """Figures as text; one that is not known is `none`."""

    none: str

    def number(self, value: float | None, decimals: int = 0) -> str:
        return self.none if value is None else f"{value:,.{decimals}f}"

    def ms(self, value_s: float | None, decimals: int = 0) -> str:
        return f"{self.number(None if value_s is None else value_s * 1000, decimals)} ms"

    def count(self, value: float | None, one: str, several: str) -> str:
        return f"{self.number(value)} {one if value == 1 else several}"


def _recognition(f: TurnFacts, say: _Words) -> str:
    partials = say.count(f.asr_partials, "partial", "partials")
    frames = say.count(f.asr_right_context, "frame", "frames")
    context = "" if f.asr_right_context is None else f" ({frames} of look-ahead)"
    return (
        f"{say.ms(f.asr_chunk_s)} chunks{context}, {partials} ({say.number(f.asr_partials_skipped)} skipped), "
        f"{say.number(f.asr_encoded_ratio, 1)} s encoded per second of speech, "
        f"final {say.ms(f.asr_final_after_s)} after its end"
    )


def _language_model(f: TurnFacts, say: _Words) -> str:
    prompt = say.count(f.llm_prompt_tokens, "prompt token", "prompt tokens")
    thinking = say.count(f.llm_unspoken_tokens, "thinking token", "thinking tokens")
    return (
        f"{prompt} ({say.number(f.llm_cached_tokens)} cached, {say.number(f.llm_evaluated_tokens)} evaluated), "
        f"{say.number(f.llm_output_tokens)} out at {say.number(f.llm_tokens_per_s)} tokens/s, {thinking}"
    )


def _details(f: TurnFacts, say: _Words) -> Iterator[tuple[str, str]]:
    """What only some engines tell; an empty line is left out."""
    if f.llm_weight_bytes is not None and f.llm_kv_bytes is not None:
        weights, kv = f.llm_weight_bytes / 1e6, f.llm_kv_bytes / 1e6
        yield "reads", f"{weights:,.0f} MB of weights per token, up to {kv:,.1f} MB of KV cache"
    if f.llm_drafted_tokens:
        yield "drafts", f"{say.number(f.llm_accepted_tokens)} of {f.llm_drafted_tokens:,.0f} drafted tokens were taken"
    yield "ASR parts", _parts(f.asr_parts_ns, say)
    yield "set-up", _parts(f.tts_setup_parts_ns, say) if len(f.tts_setup_parts_ns) > 1 else ""
    if len(f.tts_patch_parts_ns) > 1:
        forwards = "" if f.tts_forwards is None else f" ({f.tts_forwards:.0f} diffusion passes)"
        yield "patch", f"{_parts(f.tts_patch_parts_ns, say)}{forwards}"


def _heard(turn: Turn, say: _Words) -> str:
    """When the first audio was heard where it was played; empty where nobody told."""
    told = turn.attributes
    heard_ns, error_s = told.get(v.TURN_HEARD_NS), told.get(v.TURN_HEARD_ERROR_S)
    if not isinstance(heard_ns, int) or turn.first_audio_ns is None:
        return ""
    error = f" (give or take {say.ms(error_s, 1)})" if isinstance(error_s, float) else ""
    waits = {"its jitter buffer": v.TURN_HEARD_JITTER_BUFFER_S, "its output": v.TURN_HEARD_OUTPUT_S}
    parts = [f"{name} {say.ms(took_s)}" for name, key in waits.items() if isinstance(took_s := told.get(key), float)]
    of_it = f", of it {', '.join(parts)}" if parts else ""
    return f"in the browser {say.ms((heard_ns - turn.first_audio_ns) / 1e9)}{error} after it left{of_it}"


def _parts(parts_ns: Mapping[str, int], say: _Words) -> str:
    return ", ".join(f"{_PART_NAMES.get(part, part)} {say.ms(ns / 1e9, 1)}" for part, ns in parts_ns.items())


def _voice(f: TurnFacts, say: _Words) -> str:
    setup_s = None if f.tts_setup_ns is None else f.tts_setup_ns / 1e9
    return (
        f"{say.ms(setup_s, 1)} set-up, {say.count(f.tts_patches, 'patch', 'patches')}, "
        f"{say.number(f.tts_audio_s, 2)} s of sound, real-time factor {say.number(f.tts_real_time_factor, 2)}"
    )


def _playout(f: TurnFacts, say: _Words) -> str:
    pauses = say.count(f.playout_pauses, "pause", "pauses")
    paused = f", {pauses} of {say.ms(f.playout_paused_s)} in all for a sound of yours" if f.playout_pauses else ""
    return (
        f"{say.count(f.playout_underruns, 'underrun', 'underruns')}, {say.ms(f.playout_buffer_s)} start buffer, "
        f"{say.ms(f.playout_leading_silence_s)} leading silence{paused}"
    )


def _barge_in(f: TurnFacts, say: _Words) -> str:
    return (
        f"silent {say.ms(f.barge_in_stop_s)} after you were heard, {say.number(f.heard_words)} of "
        f"{say.count(f.reply_words, 'word', 'words')} had been played"
    )
