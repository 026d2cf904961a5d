"""Turns for the tests: one written by hand, and random ones."""

import random
from collections.abc import Mapping

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import EndReason, Stage

MS = 1_000_000
STEP_STAGES = tuple(v.SPAN_PATH_OF_STAGE)


def answered(extra_ms: Mapping[str, int] | None = None, index: int = 1) -> Turn:
    """A turn with its speech from 1000 to 2500 ms. `extra_ms` makes a step longer, by the names used below; what comes
    after it is later by as much. Beside the path: smart-turn, 40 ms, with 20 ms of slack."""
    extra = dict(extra_ms or {})
    now = 2500
    turn = Turn("conversation", index, 1000 * MS, speech_end_ns=2500 * MS, speech_end_estimated=False)

    def add(stage: Stage, lasts_ms: int, causes: list[int], name: str, after_ms: int = 0, **more: object) -> int:
        nonlocal now
        start = now + after_ms
        now = start + lasts_ms + extra.get(name, 0)
        return turn.add(stage, start * MS, now * MS, causes, **more)  # type: ignore[arg-type]

    turn.add(Stage.ASR_PARTIAL, 1400 * MS, 1440 * MS)
    wait = add(Stage.ENDPOINT_WAIT, 200, [], "wait")
    beside = turn.add(Stage.SMART_TURN, 2700 * MS, (2740 + extra.get("beside", 0)) * MS, [wait])
    final = add(Stage.ASR_FINALIZE, 60, [wait], "asr")
    now = max(now, 2740 + extra.get("beside", 0))
    host = add(Stage.HOST, 1, [final, beside], "host", attributes={v.WHAT: "prompt"})
    prefill = add(Stage.LLM_PREFILL, 80, [host], "prefill", after_ms=extra.get("queue", 0), waited_for="llm.generate")
    tokens = {
        v.START_TIMES_NS: [k * 7 * MS for k in range(9)],
        v.END_TIMES_NS: [(k * 7 + 6) * MS for k in range(9)],
    }
    phrase = add(Stage.LLM_FIRST_PHRASE, 63, [prefill], "phrase", attributes=tokens)
    turn.add(Stage.LLM_DECODE, now * MS, (now + 210) * MS, [phrase])
    setup = add(Stage.TTS_SETUP, 40, [phrase], "setup", phrase=0, after_ms=extra.get("unattributed", 0))
    patch = add(Stage.TTS_FIRST_PATCH, 30, [setup], "patch", phrase=0)
    turn.add(Stage.TTS_PATCHES, now * MS, (now + 60) * MS, [patch], phrase=0)
    buffer = add(Stage.PLAYOUT_BUFFER, 10, [patch], "buffer")
    silence = add(Stage.PLAYOUT_LEADING_SILENCE, 20, [buffer], "silence")
    turn.first_audio_ns, turn.first_audio_step = now * MS, silence
    turn.add(Stage.PLAYOUT_PLAY, now * MS, (now + 1500) * MS, [silence])
    turn.end_ns, turn.end_reason = (now + 1510) * MS, EndReason.COMPLETED
    turn.describe(v.ENDPOINT, {v.ENDPOINT_KIND: "hangover", v.ENDPOINT_HANGOVER_S: 0.2})
    turn.describe(
        v.ASR,
        {v.MODEL: "moonshine", v.ASR_CHUNK_S: 0.32, v.ASR_PARTIALS: 1, v.ASR_PARTIALS_SKIPPED: 2}
        | {v.ASR_ENCODED_S: 3.0, v.ASR_SPEECH_S: 1.5},
    )
    turn.describe(
        v.LLM,
        {v.MODEL: "smollm2", v.INPUT_TOKENS: 130, v.CACHED_TOKENS: 104, v.LLM_EVALUATED_TOKENS: 26}
        | {v.OUTPUT_TOKENS: 39, v.UNSPOKEN_TOKENS: 0},
    )
    turn.describe(v.TTS, {v.MODEL: "piper", v.TTS_PATCHES: 3, v.TTS_AUDIO_S: 1.3}, phrase=0)
    turn.describe(v.PLAYOUT, {v.PLAYOUT_UNDERRUNS: 0, v.PLAYOUT_BUFFER_S: 0.01, v.PLAYOUT_LEADING_SILENCE_S: 0.02})
    return turn


def interrupted(index: int = 2) -> Turn:
    """A turn that was interrupted before its first sound."""
    turn = Turn("conversation", index, 5000 * MS, speech_end_ns=6000 * MS)
    wait = turn.add(Stage.ENDPOINT_WAIT, 6000 * MS, 6200 * MS)
    turn.add(Stage.ASR_FINALIZE, 6200 * MS, 6260 * MS, [wait])
    turn.end_ns, turn.end_reason = 6300 * MS, EndReason.INTERRUPTED
    turn.attributes[v.TURN_BARGE_IN_STOP_S] = 0.042
    return turn


def random_turn(rng: random.Random, index: int = 0) -> Turn:
    """Any turn that a timeline can hold: steps in any place, overlapping, of no length, with any earlier causes."""
    turn = Turn(f"c {rng.random()}", index, rng.randrange(10**12), speech_end_estimated=rng.random() < 0.5)
    origin = turn.speech_start_ns
    for _ in range(rng.randrange(40)):
        start = origin + rng.randrange(5000)
        count = len(turn.steps)
        recent = [max(0, count - rng.randrange(1, 9)) for _ in range(rng.randrange(4))]
        turn.add(
            rng.choice(STEP_STAGES),
            start,
            start + rng.choice((0, 1, rng.randrange(900))),
            [cause for cause in recent if cause < count] + [None],
            waited_for=rng.choice((None, None, "llm.generate", 'a "holder" \u4f60\n')),
            phrase=rng.choice((None, 0, 1, 2)),
            attributes=_attributes(rng),
        )
    if turn.steps and rng.random() < 0.8:
        last = rng.choice(turn.steps)
        turn.first_audio_ns, turn.first_audio_step = last.end_ns, last.index
    turn.speech_end_ns = rng.choice((None, origin + rng.randrange(5000), origin + rng.randrange(5000)))
    turn.end_reason = rng.choice((None, *EndReason))
    turn.end_ns = rng.choice((None, origin + rng.randrange(9000)))
    turn.attributes.update(_attributes(rng))
    for group in (v.ENDPOINT, v.ASR, v.LLM, v.TTS, v.PLAYOUT):
        for phrase in rng.sample((None, 0, 1, 2), rng.randrange(3)):
            turn.describe(group, {v.MODEL: f"{group}-model", **_attributes(rng)}, phrase)
    return turn


def _attributes(rng: random.Random) -> dict[str, Attribute]:
    values: dict[str, Attribute] = {
        "text": rng.choice(("", "plain", 'quotes " and \\ and \n', "\u4f60\u597d \U0001f600", "\ud800")),
        "yes": True,
        "no": False,
        "zero": 0,
        "integer": rng.choice((-(2**63), 2**63 - 1, rng.randrange(10**18))),
        "float": rng.choice((0.0, -0.0, 1.0, 0.1, 1e-300, float("inf"), rng.random())),
        "empty": (),
        "integers": tuple(rng.randrange(10**10) for _ in range(rng.randrange(5))),
        "floats": (0.5, 1.0),
        "texts": ("", "b"),
        v.END_TIMES_NS: (1, 2, 3),
    }
    return {key: values[key] for key in rng.sample(sorted(values), rng.randrange(len(values)))}
