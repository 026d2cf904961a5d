"""From the spans of one trace back to the turn they came from, exact to the nanosecond."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiling.trace import vocabulary as v
from profiling.trace.spans import GroupKey, TurnContent
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import EndReason, Stage

_KEYS_OF_ROOT = {
    v.OPERATION,
    v.AGENT_NAME,
    v.CONVERSATION_ID,
    v.TURN_INDEX,
    v.TURN_LATENCY_S,
    v.TURN_END_REASON,
    v.TURN_SPEECH_START_NS,
    v.TURN_SPEECH_END_NS,
    v.TURN_SPEECH_END_ESTIMATED,
    v.TURN_FIRST_AUDIO_NS,
    v.TURN_FIRST_AUDIO_STEP,
    v.TURN_END_NS,
    v.INPUT_MESSAGES,
    v.OUTPUT_MESSAGES,
}
_KEYS_OF_GROUP = {v.GROUP, v.PHRASE}
_KEYS_OF_STEP = {
    v.STEP_INDEX,
    v.STEP_STAGE,
    v.STEP_CAUSES,
    v.STEP_WAITED_FOR,
    v.STEP_START_NS,
    v.STEP_END_NS,
    v.PHRASE,
}


@dataclass(frozen=True)
class SpanRecord:
    """What a trace file says of one span."""

    trace_id: str
    span_id: str
    start_wall_ns: int
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True)
class RebuiltTurn:
    """A turn read back, its place on the wall clock, its texts if the trace has them, and a sentence per problem."""

    turn: Turn
    start_wall_ns: int
    content: TurnContent | None
    warnings: tuple[str, ...]


def rebuild_turn(spans: Sequence[SpanRecord]) -> RebuiltTurn | None:
    """The turn of a trace, from its spans in any order; None when the trace has no root span of a turn.

    Steps that are missing or make no sense are left out, the others are numbered anew: what the lost ones took then
    shows as unattributed.
    """
    root = next((span for span in spans if v.TURN_INDEX in span.attributes), None)
    if root is None:
        return None
    turn = _bare_turn(root.attributes)
    if turn is None:
        return None
    for span in spans:
        group = span.attributes.get(v.GROUP)
        if isinstance(group, str) and (described := _others(span.attributes, _KEYS_OF_GROUP)):
            key: GroupKey = (group, _int(span.attributes, v.PHRASE))
            turn.groups[key] = described
    steps = [span.attributes for span in spans if v.STEP_INDEX in span.attributes]
    numbers, lost = _add_steps(turn, steps)
    first_audio_step = _int(root.attributes, v.TURN_FIRST_AUDIO_STEP)
    if first_audio_step is not None:
        turn.first_audio_step = numbers.get(first_audio_step)
    missing: list[str] = []
    if lost:
        missing.append(f"lacks {lost} of its steps; the time that they took is shown as unattributed.")
    if uncaused := sum(not isinstance(step.get(v.STEP_CAUSES), tuple) for step in steps):
        missing.append(f"does not say what {uncaused} of its steps waited for; the time before them is unattributed.")
    if turn.first_audio_ns is not None and first_audio_step is None:
        missing.append("does not say which step its first sound came from; all of its latency is unattributed.")
    whose = f"Turn {turn.index} of conversation {turn.conversation_id}"
    return RebuiltTurn(
        turn, root.start_wall_ns, _content(root.attributes), tuple(f"{whose} {what}" for what in missing)
    )


def _bare_turn(root: Mapping[str, Attribute]) -> Turn | None:
    conversation_id = root.get(v.CONVERSATION_ID)
    index = _int(root, v.TURN_INDEX)
    speech_start_ns = _int(root, v.TURN_SPEECH_START_NS)
    end_reason = root.get(v.TURN_END_REASON)
    if not isinstance(conversation_id, str) or index is None or speech_start_ns is None:
        return None
    return Turn(
        conversation_id,
        index,
        speech_start_ns,
        speech_end_ns=_int(root, v.TURN_SPEECH_END_NS),
        speech_end_estimated=root.get(v.TURN_SPEECH_END_ESTIMATED) is not False,
        first_audio_ns=_int(root, v.TURN_FIRST_AUDIO_NS),
        end_reason=EndReason(end_reason) if end_reason in set(EndReason) else None,
        end_ns=_int(root, v.TURN_END_NS),
        attributes=_others(root, _KEYS_OF_ROOT),
    )


def _add_steps(turn: Turn, spans: Sequence[Mapping[str, Attribute]]) -> tuple[dict[int, int], int]:
    """Append the steps in their order; the recorded number of each to its new one, and how many were lost."""
    recorded = {index: span for span in reversed(spans) if (index := _int(span, v.STEP_INDEX)) is not None}
    numbers: dict[int, int] = {}
    for index, span in sorted(recorded.items()):
        causes = span.get(v.STEP_CAUSES)
        waited_for = span.get(v.STEP_WAITED_FOR)
        start_ns, end_ns = _int(span, v.STEP_START_NS), _int(span, v.STEP_END_NS)
        stage = span.get(v.STEP_STAGE)
        if stage not in v.SPAN_PATH_OF_STAGE or start_ns is None or end_ns is None or end_ns < start_ns:
            continue
        numbers[index] = turn.add(
            Stage(stage),
            start_ns,
            end_ns,
            [numbers.get(c) for c in causes if isinstance(c, int)] if isinstance(causes, Sequence) else (),
            waited_for=waited_for if isinstance(waited_for, str) else None,
            phrase=_int(span, v.PHRASE),
            attributes=_others(span, _KEYS_OF_STEP),
        )
    expected = max([*recorded, -1]) + 1
    return numbers, max(expected, len(spans)) - len(numbers)


def _content(root: Mapping[str, Attribute]) -> TurnContent | None:
    transcript, reply = _text(root.get(v.INPUT_MESSAGES)), _text(root.get(v.OUTPUT_MESSAGES))
    return None if transcript is None and reply is None else TurnContent(transcript, reply)


def _text(messages: Attribute | None) -> str | None:
    """The text of one message in the form of the GenAI conventions; None when it is not in that form."""
    try:
        text = json.loads(messages if isinstance(messages, str) else "")[0]["parts"][0]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return text if isinstance(text, str) else None


def _int(attributes: Mapping[str, Attribute], key: str) -> int | None:
    value = attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _others(attributes: Mapping[str, Attribute], known: set[str]) -> dict[str, Attribute]:
    return {key: value for key, value in attributes.items() if key not in known}
