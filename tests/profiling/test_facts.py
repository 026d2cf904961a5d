"""The lines that tell what each engine did, where an engine tells it."""

import pytest

from profiling.report.facts import fact_lines
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.turn import turn_facts
from tests.profiling.turns import MS, answered


def detailed() -> Turn:
    turn = answered()
    turn.describe(
        v.ASR,
        {v.ASR_RIGHT_CONTEXT: 3, v.ASR_CHUNKS: 5, v.ASR_FINAL_AFTER_S: 0.26},
    )
    turn.describe(v.LLM, {v.LLM_WEIGHT_BYTES: 6_960_000_000, v.LLM_DRAFTED_TOKENS: 12, v.LLM_ACCEPTED_TOKENS: 7})
    encoder, decoder = (v.ASR_PART_NS.format(part) for part in ("encoder", "decoder"))
    for stage in (Stage.ASR_PARTIAL, Stage.ASR_FINALIZE):
        turn.add(stage, 0, 9 * MS, attributes={encoder: 5 * MS, decoder: 2 * MS})
    turn.add(Stage.LLM_DECODE, 0, MS, attributes={v.LLM_KV_BYTES: [1_000_000, 2_500_000]})
    tokenise, prefill = (v.TTS_SETUP_PART_NS.format(part) for part in ("tokenise", "prefill"))
    turn.steps[:] = [step for step in turn.steps if step.stage is not Stage.TTS_SETUP]
    turn.add(Stage.TTS_SETUP, 0, 4 * MS, attributes={tokenise: MS, prefill: 3 * MS})
    turn.add(Stage.TTS_SETUP, 0, 9 * MS, attributes={tokenise: 9 * MS})
    base, diffusion = (v.TTS_PATCH_PART_NS.format(part) for part in ("base_lm", "diffusion"))
    first = {base: [0], diffusion: [40 * MS], v.TTS_FORWARDS: [9]}
    rest = {base: [10 * MS, 12 * MS], diffusion: [50 * MS, 60 * MS], v.TTS_FORWARDS: [9, 9]}
    turn.add(Stage.TTS_FIRST_PATCH, 0, MS, attributes=first)
    turn.add(Stage.TTS_PATCHES, 0, MS, attributes=rest)
    return turn


def test_figures_by_part() -> None:
    facts = turn_facts(detailed())
    assert facts.asr_parts_ns == {"encoder": 10 * MS, "decoder": 4 * MS}
    assert facts.tts_setup_parts_ns == {"tokenise": MS, "prefill": 3 * MS}
    assert facts.tts_patch_parts_ns == {"base_lm": 11 * MS, "diffusion": 55 * MS}
    assert (facts.tts_forwards, facts.llm_kv_bytes, facts.asr_right_context) == (9, 2_500_000, 3)


def test_lines() -> None:
    lines = fact_lines(detailed(), "-")
    assert "320 ms chunks (3 frames of look-ahead)" in lines["ASR"] and "final 260 ms after its end" in lines["ASR"]
    assert lines["reads"] == "6,960 MB of weights per token, up to 2.5 MB of KV cache"
    assert lines["drafts"] == "7 of 12 drafted tokens were taken"
    assert lines["ASR parts"] == "encoder 10.0 ms, decoder 4.0 ms"
    assert lines["patch"] == "base LM 11.0 ms, diffusion 55.0 ms (9 diffusion passes)"
    assert lines["set-up"] == "tokenise 1.0 ms, prefill 3.0 ms"


def test_pauses_are_told_where_there_were_any() -> None:
    turn = answered()
    turn.describe(v.PLAYOUT, {v.PLAYOUT_PAUSES: 0, v.PLAYOUT_PAUSED_S: 0.0})
    assert fact_lines(turn, "-")["playout"] == "0 underruns, 10 ms start buffer, 20 ms leading silence"
    turn.describe(v.PLAYOUT, {v.PLAYOUT_PAUSES: 2, v.PLAYOUT_PAUSED_S: 1.25})
    assert fact_lines(turn, "-")["playout"].endswith(
        "leading silence, 2 pauses of 1,250 ms in all for a sound of yours"
    )


def test_what_an_engine_does_not_tell_has_no_line() -> None:
    lines = fact_lines(answered(), "-")
    assert list(lines) == ["ASR", "LLM", "voice", "playout"]
    assert "look-ahead" not in lines["ASR"] and "final - ms" in lines["ASR"]


@pytest.mark.parametrize(
    ("tokens_ms", "per_s"),
    [
        ([10, 10], 100),
        ([0, 10, 10], 100),  # the first one came with the prompt's end
        ([0, 0, 0, *[20] * 5, 0, *[20] * 5], 55),  # two came together, once
        ([0, *[20] * 5, 0, *[20] * 3], None),
        ([0, 20, 0, 0], None),
        ([0, 0, 0], None),
        ([], None),
    ],
)
def test_tokens_that_came_together_have_no_rate(tokens_ms: list[int], per_s: float | None) -> None:
    turn = Turn("c", 1, 0)
    ends = [sum(tokens_ms[: at + 1]) * MS for at in range(len(tokens_ms))]
    starts = [end - ms * MS for end, ms in zip(ends, tokens_ms, strict=True)]
    turn.add(Stage.LLM_FIRST_PHRASE, 0, 500 * MS, attributes={v.START_TIMES_NS: starts, v.END_TIMES_NS: ends})
    assert turn_facts(turn).llm_tokens_per_s == per_s


def test_when_it_was_heard_is_told_where_a_browser_tells() -> None:
    turn = answered()
    assert "heard" not in fact_lines(turn, "-") and turn.first_audio_ns is not None
    turn.attributes |= {v.TURN_HEARD_NS: turn.first_audio_ns + 81 * MS, v.TURN_HEARD_ERROR_S: 0.0006}
    assert fact_lines(turn, "-")["heard"] == "in the browser 81 ms (give or take 0.6 ms) after it left"
    turn.attributes |= {v.TURN_HEARD_JITTER_BUFFER_S: 0.029, v.TURN_HEARD_OUTPUT_S: 0.03}
    assert fact_lines(turn, "-")["heard"].endswith(", of it its jitter buffer 29 ms, its output 30 ms")
