"""What each engine did in a turn, one line per engine."""

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason
from profiling.turn import turn_facts

Figure = tuple[float | None, str]  # a value and its format


def fact_lines(turn: Turn, none: str) -> dict[str, str]:
    """Lines by label. A figure that the turn does not hold is shown as `none`, a line without any figure as `none` alone."""
    facts = turn_facts(turn)

    def line(text: str, *figures: tuple[float | None, str]) -> str:
        if all(value is None for value, _ in figures):
            return none
        return text.format(*(none if value is None else format(value, spec) for value, spec in figures))

    lines = {
        "ASR": line(
            "{} ms chunks, {} partials ({} skipped), {} s encoded per second of speech",
            (_ms(facts.asr_chunk_s), ".0f"),
            (facts.asr_partials, ".0f"),
            (facts.asr_partials_skipped, ".0f"),
            (facts.asr_encoded_ratio, ".1f"),
        ),
        "LLM": line(
            "{} prompt tokens ({} cached, {} evaluated), {} out at {} tokens/s, {} thinking tokens",
            (facts.llm_prompt_tokens, ",.0f"),
            (facts.llm_cached_tokens, ",.0f"),
            (facts.llm_evaluated_tokens, ",.0f"),
            (facts.llm_output_tokens, ",.0f"),
            (facts.llm_tokens_per_s, ",.0f"),
            (facts.llm_unspoken_tokens, ",.0f"),
        ),
        "voice": line(
            "{} ms set-up, {} patches, {} s of sound, real-time factor {}",
            (None if facts.tts_setup_ns is None else facts.tts_setup_ns / 1e6, ",.1f"),
            (facts.tts_patches, ",.0f"),
            (facts.tts_audio_s, ",.2f"),
            (facts.tts_real_time_factor, ".2f"),
        ),
        "playout": line(
            "{} underruns, {} ms start buffer, {} ms leading silence",
            (facts.playout_underruns, ",.0f"),
            (_ms(facts.playout_buffer_s), ",.0f"),
            (_ms(facts.playout_leading_silence_s), ",.0f"),
        ),
    }
    if turn.end_reason is EndReason.INTERRUPTED:
        lines["barge-in"] = line(
            "silent {} ms after you were heard, {} of {} words had been played",
            (_ms(facts.barge_in_stop_s), ",.0f"),
            (facts.heard_words, ",.0f"),
            (facts.reply_words, ",.0f"),
        )
    if v.TURN_ERROR in turn.attributes:
        lines["error"] = str(turn.attributes[v.TURN_ERROR])
    return lines


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1000
