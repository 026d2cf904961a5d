"""From a turn to its OpenTelemetry spans: one trace per turn, a pure function of the timeline.

The spans are built as finished records with explicit times: no ambient context, no global provider, no sampler, no
limits, nothing of OTEL_* in the environment. Trace and span ids follow from the run's anchor, the conversation and
the turn, so that a turn can link to the one before it and a file and a collector show the same trace.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor, seconds
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.trace.vocabulary import EndReason

SCOPE_NAME = "turnscope"
_SCOPE = InstrumentationScope(SCOPE_NAME)
_UNSET = Status(StatusCode.UNSET)

GroupKey = tuple[str, int | None]


@dataclass(frozen=True)
class TurnContent:
    """What was said in a turn. It goes into a trace only when a caller hands it over."""

    transcript: str | None = None
    reply: str | None = None


@dataclass
class _Node:
    """A span to be: its parents' intervals follow from it."""

    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    status: Status = _UNSET
    children: list["_Node"] = field(default_factory=list["_Node"])


def turn_spans(
    turn: Turn,
    anchor: Anchor,
    resource: Resource,
    *,
    previous_index: int | None = None,
    content: TurnContent | None = None,
) -> list[ReadableSpan]:
    """The turn's span tree, root first, each parent before its children.

    `anchor` is the run's first: it turns the monotonic nanoseconds into wall time. `previous_index` is the index of the
    conversation's turn before this one, which the root links to. Without `content` no text of the turn is in any span.
    """
    root = _root(turn, content)
    root.children = list(_children(turn, root))
    contexts = _contexts(anchor, turn.conversation_id, turn.index)
    links = ()
    if previous_index is not None:
        links = (Link(next(_contexts(anchor, turn.conversation_id, previous_index))),)
    return [
        ReadableSpan(
            node.name,
            context,
            parent,
            resource,
            node.attributes,
            links=links if parent is None else (),
            status=node.status,
            start_time=anchor.to_wall_ns(node.start_ns),
            end_time=anchor.to_wall_ns(node.end_ns),
            instrumentation_scope=_SCOPE,
        )
        for node, context, parent in _flatten(root, None, contexts)
    ]


def group_of(step: Step, groups: Mapping[GroupKey, object]) -> GroupKey:
    """The group span that holds a step: the phrase's own where the group has one span per phrase."""
    group = v.SPAN_PATH_OF_STAGE[step.stage][0]
    by_phrase = (group, step.phrase)
    return by_phrase if group == v.TTS or by_phrase in groups else (group, None)


def _root(turn: Turn, content: TurnContent | None) -> _Node:
    known = [t for t in (turn.speech_start_ns, turn.speech_end_ns, turn.first_audio_ns, turn.end_ns) if t is not None]
    start_ns = min([*known, *(step.start_ns for step in turn.steps)])
    end_ns = max([*known, *(step.end_ns for step in turn.steps)])
    latency_ns = turn.latency_ns
    facts: dict[str, Attribute | None] = {
        **{key: value for key, value in turn.attributes.items() if key not in (v.INPUT_MESSAGES, v.OUTPUT_MESSAGES)},
        v.OPERATION: "invoke_agent",
        v.AGENT_NAME: SCOPE_NAME,
        v.CONVERSATION_ID: turn.conversation_id,
        v.TURN_INDEX: turn.index,
        v.TURN_LATENCY_S: None if latency_ns is None else seconds(latency_ns),
        v.TURN_END_REASON: turn.end_reason,
        v.TURN_SPEECH_START_NS: turn.speech_start_ns,
        v.TURN_SPEECH_END_NS: turn.speech_end_ns,
        v.TURN_SPEECH_END_ESTIMATED: turn.speech_end_estimated,
        v.TURN_FIRST_AUDIO_NS: turn.first_audio_ns,
        v.TURN_FIRST_AUDIO_STEP: turn.first_audio_step,
        v.TURN_END_NS: turn.end_ns,
    }
    if content is not None and content.transcript is not None:
        facts[v.INPUT_MESSAGES] = _message("user", content.transcript)
    if content is not None and content.reply is not None:
        facts[v.OUTPUT_MESSAGES] = _message("assistant", content.reply)
    status = _error(turn.attributes.get(v.TURN_ERROR, "")) if turn.end_reason is EndReason.ERROR else _UNSET
    return _Node(v.AGENT, start_ns, end_ns, _known(facts), status)


def _children(turn: Turn, root: _Node) -> Iterator[_Node]:
    """The spans of the groups, each exactly as long as its steps, and the host steps. A group that was described but
    has no step becomes a span of no length where the turn ends."""
    paths: dict[tuple[GroupKey, str], _Node] = {}
    groups: dict[GroupKey, _Node] = {}
    for step in turn.steps:
        names = v.SPAN_PATH_OF_STAGE[step.stage]
        leaf = _step_node(step, names[-1])
        if len(names) == 1:
            yield leaf
            continue
        key = group_of(step, turn.groups)
        parent = groups.get(key) or groups.setdefault(key, _group_node(turn, key, step.start_ns, step.end_ns))
        _widen(parent, step)
        for name in names[1:-1]:
            if (key, name) not in paths:
                paths[key, name] = _Node(name, step.start_ns, step.end_ns, {})
                parent.children.append(paths[key, name])
            parent = paths[key, name]
            _widen(parent, step)
        parent.children.append(leaf)
    for key in turn.groups.keys() - groups.keys():
        groups[key] = _group_node(turn, key, root.end_ns, root.end_ns)
    yield from groups.values()


def _group_node(turn: Turn, key: GroupKey, start_ns: int, end_ns: int) -> _Node:
    group, phrase = key
    described = turn.groups.get(key, {})
    named = group in v.GROUPS_WITH_MODEL and v.MODEL in described
    facts: dict[str, Attribute | None] = {
        **described,
        v.GROUP: group,
        v.PHRASE: phrase,
    }
    name = f"{group} {described[v.MODEL]}" if named else group
    return _Node(name, start_ns, end_ns, _known(facts), _status(described))


def _step_node(step: Step, name: str) -> _Node:
    facts: dict[str, Attribute | None] = {
        **step.attributes,
        v.STEP_INDEX: step.index,
        v.STEP_STAGE: step.stage,
        v.STEP_CAUSES: step.causes,
        v.STEP_WAITED_FOR: step.waited_for,
        v.STEP_START_NS: step.start_ns,
        v.STEP_END_NS: step.end_ns,
        v.PHRASE: step.phrase,
    }
    return _Node(name, step.start_ns, step.end_ns, _known(facts), _status(step.attributes))


def _widen(node: _Node, step: Step) -> None:
    node.start_ns, node.end_ns = min(node.start_ns, step.start_ns), max(node.end_ns, step.end_ns)


def _known(facts: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {key: str(value) if isinstance(value, str) else value for key, value in facts.items() if value is not None}


def _status(attributes: Mapping[str, Attribute]) -> Status:
    return _error(attributes[v.ERROR_TYPE]) if v.ERROR_TYPE in attributes else _UNSET


def _error(description: Attribute) -> Status:
    return Status(StatusCode.ERROR, str(description))


def _message(role: str, text: str) -> str:
    """One message as the GenAI conventions write it on a span: a JSON string."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)


def _flatten(
    node: _Node, parent: SpanContext | None, contexts: Iterator[SpanContext]
) -> Iterable[tuple[_Node, SpanContext, SpanContext | None]]:
    context = next(contexts)
    yield node, context, parent
    for child in node.children:
        yield from _flatten(child, context, contexts)


def _contexts(anchor: Anchor, conversation_id: str, turn_index: int) -> Iterator[SpanContext]:
    """The identities of a turn's spans, the root's first."""
    turn = f"{anchor.wall_ns} {turn_index} {conversation_id}".encode(errors="backslashreplace")
    trace_id = int.from_bytes(hashlib.blake2b(turn, digest_size=16).digest())
    ordinal = 0
    while True:
        span = hashlib.blake2b(b"%s %d" % (turn, ordinal), digest_size=8).digest()
        yield SpanContext(trace_id, int.from_bytes(span), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        ordinal += 1
