"""A run of many turns for measuring how long it takes to explain one: its turns are made up, its files are real."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from profiling.run import RunWriter
from profiling.trace import vocabulary as v
from profiling.trace.clock import NS_PER_S, Clock
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import EndReason, Stage

MS = 1_000_000
PHRASES = 10
CHUNK_NS, PREFILL_NS, TOKEN_NS, SETUP_NS, PATCH_NS = 18 * MS, 80 * MS, 11 * MS, 30 * MS, 76 * MS
PROMPT_TOKENS, PHRASE_UNITS, FORWARDS, PATCH_AUDIO_S = 30, 40, 9, 0.16
KV_BYTES, KV_BYTES_PER_TOKEN = 3_000_000, 60_000
DEEPEST_KV_BYTES = KV_BYTES + 1000 * KV_BYTES_PER_TOKEN


def write_run(folder: Path, clock: Clock, turns: int, steps: int) -> Path:
    """A run folder of so many turns with so many steps each: chunks, tokens and patches, most of them in loops."""
    writer = RunWriter(folder, "long run", clock)
    for turn in long_turns(turns, steps):
        writer.write_turn(turn)
    writer.close(complete=True)
    return writer.folder


def long_turns(turns: int, steps: int) -> Iterator[Turn]:
    for index in range(1, turns + 1):
        yield long_turn(index, index * 60 * NS_PER_S, steps)


def long_turn(index: int, start_ns: int, steps: int) -> Turn:
    """An answered turn of ten phrases: of its steps 1 % are chunks of the recogniser, 16 % patches of the voice, the
    others tokens. Every loop's pass is a little longer than the one before it."""
    chunks, patches = steps // 100, steps * 4 // 25
    tokens = steps - chunks - patches
    turn = Turn("long", index, start_ns, speech_end_ns=start_ns + chunks * 320 * MS)
    assert turn.speech_end_ns is not None
    for number in range(chunks):
        begin = start_ns + (number + 1) * 320 * MS - 20 * MS
        turn.add(Stage.ASR_PARTIAL, begin, begin + CHUNK_NS, attributes=_chunk(CHUNK_NS))
    wait = turn.add(Stage.ENDPOINT_WAIT, turn.speech_end_ns, turn.speech_end_ns + 200 * MS)
    final = _then(turn, Stage.ASR_FINALIZE, wait, CHUNK_NS, attributes=_chunk(CHUNK_NS))
    host = _then(turn, Stage.HOST, final, 100_000, attributes={v.WHAT: "prompt"})
    cause = _then(turn, Stage.LLM_PREFILL, host, PREFILL_NS, attributes={v.LLM_EVALUATED_TOKENS: PROMPT_TOKENS})
    bounds = [tokens * number // PHRASES for number in range(PHRASES + 1)]
    for phrase, (first, last) in enumerate(pairwise(bounds)):
        stage = Stage.LLM_DECODE if phrase else Stage.LLM_FIRST_PHRASE
        cause = _loop(turn, stage, cause, phrase, TOKEN_NS, last - first, _token_facts(first, last))
        _speak(turn, cause, phrase, patches // PHRASES)
    turn.end_reason, turn.end_ns = EndReason.COMPLETED, turn.steps[-1].end_ns
    turn.describe(v.ASR, {v.MODEL: "recogniser", v.ASR_CHUNK_S: 0.32})
    turn.describe(v.LLM, {v.MODEL: "model", v.OUTPUT_TOKENS: tokens, v.UNSPOKEN_TOKENS: 0})
    return turn


def _speak(turn: Turn, cause: int, phrase: int, patches: int) -> None:
    setup = _then(turn, Stage.TTS_SETUP, cause, SETUP_NS, phrase=phrase, attributes={v.TTS_UNITS: PHRASE_UNITS})
    first = _loop(turn, Stage.TTS_FIRST_PATCH, setup, phrase, PATCH_NS, 1, _patch_facts(1))
    if patches > 1:
        _loop(turn, Stage.TTS_PATCHES, first, phrase, PATCH_NS, patches - 1, _patch_facts(patches - 1))
    turn.describe(
        v.TTS, {v.MODEL: "voice", v.TTS_PATCHES: patches, v.TTS_AUDIO_S: patches * PATCH_AUDIO_S}, phrase=phrase
    )
    if turn.first_audio_ns is None:
        silence = _then(turn, Stage.PLAYOUT_LEADING_SILENCE, first, 20 * MS)
        turn.first_audio_step, turn.first_audio_ns = silence, turn.steps[silence].end_ns


def _then(
    turn: Turn, stage: Stage, cause: int, lasts_ns: int, phrase: int | None = None, attributes: object = None
) -> int:
    start_ns = turn.steps[cause].end_ns
    return turn.add(stage, start_ns, start_ns + lasts_ns, [cause], phrase=phrase, attributes=attributes)  # type: ignore[arg-type]


def _loop(
    turn: Turn, stage: Stage, cause: int, phrase: int, pass_ns: int, passes: int, facts: dict[str, Attribute]
) -> int:
    ends = [number * pass_ns + number * number for number in range(1, passes + 1)]
    times: dict[str, Attribute] = {v.START_TIMES_NS: [0, *ends[:-1]], v.END_TIMES_NS: ends}
    return _then(turn, stage, cause, ends[-1], phrase=phrase, attributes=times | facts)


def _chunk(lasts_ns: int) -> dict[str, Attribute]:
    parts = {v.ASR_PART_NS.format("encoder"): [lasts_ns * 3 // 4], v.ASR_PART_NS.format("decoder"): [lasts_ns // 4]}
    times = {v.START_TIMES_NS: [0], v.END_TIMES_NS: [lasts_ns]}
    return {v.ASR_ENCODED_S: 0.32, v.ASR_TOKENS: 4, **parts, **times}


def _token_facts(first: int, last: int) -> dict[str, Attribute]:
    return {v.LLM_KV_BYTES: [KV_BYTES + KV_BYTES_PER_TOKEN * token for token in range(first, last)]}


def _patch_facts(patches: int) -> dict[str, Attribute]:
    parts = ("stop_check", "base_lm", "residual_lm", "diffusion", "local_encoder", "vae")
    return {
        v.TTS_FORWARDS: [FORWARDS] * patches,
        **{v.TTS_PATCH_PART_NS.format(part): [12 * MS + number for number in range(patches)] for part in parts},
    }
