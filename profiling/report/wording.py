"""Plain words for stages, for the largest part of a latency, and for the way a turn ended."""

from profiling.critical_path import CriticalPath, Segment, critical_path
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Kind, Stage
from profiling.turn import described, loop_ns

LABEL: dict[Stage, str] = {
    Stage.ENDPOINT_WAIT: "endpoint wait",
    Stage.VAD: "voice detector",
    Stage.SMART_TURN: "turn detector",
    Stage.ASR_PARTIAL: "partial transcript",
    Stage.ASR_CHUNK_WAIT: "chunk wait",
    Stage.ASR_FINALIZE: "final transcript",
    Stage.LLM_PREFILL: "LLM prefill",
    Stage.LLM_THINKING: "LLM thinking",
    Stage.LLM_FIRST_PHRASE: "LLM first phrase",
    Stage.LLM_DECODE: "LLM rest of reply",
    Stage.TTS_SETUP: "voice set-up",
    Stage.TTS_FIRST_PATCH: "voice first patch",
    Stage.TTS_PATCHES: "voice later patches",
    Stage.PLAYOUT_BUFFER: "start buffer",
    Stage.PLAYOUT_HOLD: "held while you spoke",
    Stage.PLAYOUT_LEADING_SILENCE: "leading silence",
    Stage.PLAYOUT_PLAY: "playback",
    Stage.HOST: "host (our code)",
    Stage.QUEUE: "queue",
    Stage.UNATTRIBUTED: "unattributed",
}
WHAT_IT_WAS: dict[Stage, str] = {
    Stage.ENDPOINT_WAIT: "of silence before the agent took the turn as finished",
    Stage.VAD: "of telling speech from silence",
    Stage.SMART_TURN: "in which the turn detector judged whether the sentence was finished",
    Stage.ASR_PARTIAL: "of transcribing what had been said so far",
    Stage.ASR_CHUNK_WAIT: "of waiting for the rest of the recogniser's chunk",
    Stage.ASR_FINALIZE: "of transcribing the last of the speech",
    Stage.LLM_PREFILL: "of reading the prompt before the first token",
    Stage.LLM_THINKING: "of tokens that are never spoken",
    Stage.LLM_FIRST_PHRASE: "of writing the reply up to its first cut",
    Stage.LLM_DECODE: "of writing the reply beyond its first phrase",
    Stage.TTS_SETUP: "of work on the phrase before its first sound",
    Stage.TTS_FIRST_PATCH: "of making the first piece of sound",
    Stage.TTS_PATCHES: "of making later pieces of sound",
    Stage.PLAYOUT_BUFFER: "of sound held back so that playback does not run dry",
    Stage.PLAYOUT_HOLD: "of a sound of yours that might have been words",
    Stage.PLAYOUT_LEADING_SILENCE: "of near-silence at the start of the synthesised sound",
    Stage.PLAYOUT_PLAY: "of sound played before",
    Stage.HOST: "of our own code",
    Stage.QUEUE: "of waiting for something that was busy",
    Stage.UNATTRIBUTED: "that no step accounts for",
}
HOW_IT_ENDED: dict[EndReason, str] = {
    EndReason.COMPLETED: "completed",
    EndReason.INTERRUPTED: "interrupted",
    EndReason.CUT_OFF: "cut off",
    EndReason.BACKCHANNEL: "back-channel",
    EndReason.NO_TRANSCRIPT: "no words",
    EndReason.ERROR: "failed",
    EndReason.STOPPED: "stopped",
}
WHY_NO_LATENCY: dict[EndReason, str] = {
    EndReason.COMPLETED: "the reply made no sound",
    EndReason.INTERRUPTED: "interrupted before the first sound",
    EndReason.CUT_OFF: "the user went on speaking before the first sound",
    EndReason.BACKCHANNEL: "the user only showed that they were listening, and the reply before went on",
    EndReason.NO_TRANSCRIPT: "speech was heard, but no words",
    EndReason.ERROR: "an engine failed",
    EndReason.STOPPED: "the run was stopped",
}
LEFT_OUT: dict[EndReason, str] = {
    EndReason.COMPLETED: "{turns} whose reply made no sound",
    EndReason.INTERRUPTED: "{number} interrupted before the first sound",
    EndReason.CUT_OFF: "{turns} in which the user went on speaking before the first sound",
    EndReason.BACKCHANNEL: "{turns} in which the user only showed that they were listening",
    EndReason.NO_TRANSCRIPT: "{turns} with speech, but no words",
    EndReason.ERROR: "{turns} whose engine failed",
    EndReason.STOPPED: "{number} stopped with the run",
}


def kind_word(stage: Stage, kind: Kind | None) -> str:
    """`work` of a model, a `wait`, or `ours`."""
    return "ours" if kind is None or kind is Kind.HOST else kind.value


def why_no_latency(turn: Turn) -> str:
    if turn.first_audio_ns is not None and turn.speech_end_ns is not None:
        return "the reply began before the speech ended"
    return WHY_NO_LATENCY[turn.end_reason] if turn.end_reason else "the turn was not finished"


def how_it_ended(turn: Turn) -> str:
    return HOW_IT_ENDED[turn.end_reason] if turn.end_reason else "not finished"


def left_out(turn: Turn) -> str:
    """How turns like this one are counted where they are left out, with a place for their number, or for it and the
    noun."""
    if critical_path(turn) is not None or turn.end_reason is None:
        return f"{{number}} {how_it_ended(turn)}"
    if turn.first_audio_ns is not None and turn.speech_end_ns is not None:
        return "{turns} whose reply began before the speech ended"
    return LEFT_OUT[turn.end_reason]


def largest_part(turn: Turn, path: CriticalPath) -> str | None:
    """One sentence on the largest part of the path, and one more on what it depends on where the turn's data say so."""
    if not path.segments:
        return None
    stage, part_ns = max(path.totals.items(), key=lambda item: item[1])
    head = "Most of" if 2 * part_ns > path.total_ns else "The largest part of"
    sentence = (
        f"{head} the {path.total_ns / 1e6:.0f} ms was {_article(stage)}{LABEL[stage]}: {part_ns / 1e6:.0f} ms "
        f"({100 * part_ns / path.total_ns:.0f} %) {WHAT_IT_WAS[stage]}."
    )
    depends = _depends_on(turn, stage, [s for s in path.segments if s.stage is stage])
    return f"{sentence} {depends}" if depends else sentence


def _article(stage: Stage) -> str:
    return "" if stage in (Stage.HOST, Stage.UNATTRIBUTED, Stage.PLAYOUT_PLAY) else "the "


def _depends_on(turn: Turn, stage: Stage, segments: list[Segment]) -> str | None:
    steps = [turn.steps[s.step] for s in segments if s.step is not None]
    if stage in (Stage.LLM_FIRST_PHRASE, Stage.LLM_THINKING):
        tokens = [ns for step in steps for ns in loop_ns(step) or ()]
        if tokens:
            return f"It was {len(tokens)} tokens at {sum(tokens) / len(tokens) / 1e6:.1f} ms each."
    if stage is Stage.LLM_PREFILL:
        evaluated, cached = described(turn, v.LLM, v.LLM_EVALUATED_TOKENS), described(turn, v.LLM, v.CACHED_TOKENS)
        if evaluated is not None and cached is not None:
            return f"{evaluated:.0f} tokens of the prompt were evaluated, {cached:.0f} were cached."
    if stage is Stage.ASR_FINALIZE:
        encoded_s = [step.attributes.get(v.ASR_ENCODED_S) for step in steps]
        known = [value for value in encoded_s if isinstance(value, float)]
        if known:
            return f"{sum(known):.1f} s of audio were encoded for it."
    if stage is Stage.ENDPOINT_WAIT:
        return _what_ended_the_wait(turn)
    if stage is Stage.QUEUE:
        return "It waited for " + ", ".join(dict.fromkeys(s.waited_for or "" for s in segments)) + "."
    if stage is Stage.HOST:
        names = dict.fromkeys(str(step.attributes[v.WHAT]) for step in steps if v.WHAT in step.attributes)
        return "It was: " + ", ".join(names) + "." if names else None
    return None


def _what_ended_the_wait(turn: Turn) -> str | None:
    endpoint = turn.groups.get((v.ENDPOINT, None), {})
    hangover_s, kind = described(turn, v.ENDPOINT, v.ENDPOINT_HANGOVER_S), endpoint.get(v.ENDPOINT_KIND)
    if kind == "hangover" and hangover_s is not None:
        return f"A fixed hangover ended it, after {hangover_s:.2f} s."
    if kind == "smart_turn":
        return "The turn detector ended it."
    if kind == "chosen_hangover" and hangover_s is not None:
        return f"The turn detector was not sure, so the agent waited on: {hangover_s:.2f} s."
    if kind == "max_hangover" and hangover_s is not None:
        return (
            f"The turn detector took the sentence for unfinished, so the longest hangover ended it: {hangover_s:.2f} s."
        )
    return None
