"""The span tree of a turn: names, nesting, identity, privacy."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, StatusCode

from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor
from profiling.trace.otlp_file import TraceFile, read_turns
from profiling.trace.spans import TurnContent, turn_spans
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from tests.profiling.turns import MS, answered, interrupted, random_turn

ANCHOR = Anchor(500 * MS, 1_700_000_000_000_000_000)
RESOURCE = Resource({"service.name": "turnscope"})


def spans_of(turn: Turn, **more: object) -> list[ReadableSpan]:
    return turn_spans(turn, ANCHOR, RESOURCE, **more)  # type: ignore[arg-type]


def context(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    assert span.attributes is not None
    return span.attributes


def tree(spans: Sequence[ReadableSpan]) -> dict[str, list[str]]:
    """Names of the children by the parent's name."""
    names = {context(span).span_id: span.name for span in spans}
    children: dict[str, list[str]] = {}
    for span in spans:
        if span.parent:
            children.setdefault(names[span.parent.span_id], []).append(span.name)
    return children


def test_the_tree_has_the_names_of_the_design() -> None:
    assert tree(spans_of(answered())) == {
        "invoke_agent turnscope": [
            "host",
            "speech_to_text moonshine",
            "endpoint",
            "chat smollm2",
            "text_to_speech piper",
            "playout",
        ],
        "speech_to_text moonshine": ["partial", "finalize"],
        "endpoint": ["wait", "smart_turn"],
        "chat smollm2": ["prefill", "decode"],
        "decode": ["first_phrase", "phrase"],
        "text_to_speech piper": ["setup", "patches"],
        "patches": ["first", "rest"],
        "playout": ["start_buffer", "leading_silence", "play"],
    }


def test_every_phrase_has_its_own_synthesis_span() -> None:
    turn = answered()
    turn.add(Stage.TTS_SETUP, 4000 * MS, 4050 * MS, phrase=1)
    turn.describe(v.TTS, {v.MODEL: "piper"}, phrase=1)
    phrases = [attributes(span)[v.PHRASE] for span in spans_of(turn) if span.name == "text_to_speech piper"]
    assert phrases == [0, 1]


def test_the_root_says_what_the_turn_was() -> None:
    turn = answered(index=3)
    root = spans_of(turn)[0]
    assert attributes(root)[v.CONVERSATION_ID] == "conversation"
    assert attributes(root)[v.OPERATION] == "invoke_agent"
    assert attributes(root)[v.TURN_INDEX] == 3
    assert attributes(root)[v.TURN_LATENCY_S] == pytest.approx(0.504)
    assert attributes(root)[v.TURN_END_REASON] == "completed"
    assert (root.start_time, root.end_time) == (ANCHOR.to_wall_ns(1000 * MS), ANCHOR.to_wall_ns(turn.end_ns or 0))
    assert root.status.status_code is StatusCode.UNSET
    assert v.TURN_LATENCY_S not in attributes(spans_of(interrupted())[0])


def test_a_turn_links_to_the_one_before_it() -> None:
    first, second = spans_of(answered(index=1))[0], spans_of(answered(index=2), previous_index=1)
    assert not first.links
    (link,) = second[0].links
    assert (link.context.trace_id, link.context.span_id) == (context(first).trace_id, context(first).span_id)
    assert all(not span.links for span in second[1:])
    assert context(second[0]).trace_id != context(first).trace_id


def test_ids_are_unique_valid_and_a_function_of_the_turn_and_the_run() -> None:
    spans = spans_of(answered())
    ids = {context(span).span_id for span in spans}
    assert len(ids) == len(spans) and all(context(span).is_valid for span in spans)
    assert len({context(span).trace_id for span in spans}) == 1
    assert [context(s).span_id for s in spans_of(answered())] == [context(s).span_id for s in spans]
    other_run = turn_spans(answered(), Anchor(0, 5), RESOURCE)
    assert not ids & {context(span).span_id for span in other_run}


def test_a_failure_makes_error_spans() -> None:
    turn = answered()
    turn.end_reason = EndReason.ERROR
    turn.attributes[v.TURN_ERROR] = "TurnscopeError: the voice broke"
    turn.add(Stage.TTS_SETUP, 3000 * MS, 3001 * MS, phrase=1, attributes={v.ERROR_TYPE: "TurnscopeError"})
    failed = [span for span in spans_of(turn) if span.status.status_code is StatusCode.ERROR]
    assert [span.name for span in failed] == ["invoke_agent turnscope", "setup"]
    assert failed[0].status.description == "TurnscopeError: the voice broke"


def test_children_lie_within_their_parents_and_groups_are_as_long_as_their_steps() -> None:
    for seed in range(500):
        turn = random_turn(random.Random(seed))
        spans = spans_of(turn)
        by_id = {context(span).span_id: span for span in spans}
        for span in spans:
            assert span.start_time is not None and span.end_time is not None
            assert span.start_time <= span.end_time
            if span.parent:
                parent = by_id[span.parent.span_id]
                assert (parent.start_time or 0) <= span.start_time and span.end_time <= (parent.end_time or 0)
            children = [s for s in spans if s.parent and s.parent.span_id == context(span).span_id]
            if children and span is not spans[0]:
                assert span.start_time == min(s.start_time or 0 for s in children)
                assert span.end_time == max(s.end_time or 0 for s in children)
        assert sum(v.STEP_INDEX in attributes(span) for span in spans) == len(turn.steps)
        assert [span.parent for span in spans].count(None) == 1 and spans[0].parent is None


def test_texts_are_only_in_the_spans_when_they_are_handed_over() -> None:
    turn = answered()
    turn.attributes[v.INPUT_MESSAGES] = "the secret"
    assert "the secret" not in str([dict(attributes(span)) for span in spans_of(turn)])
    root = spans_of(turn, content=TurnContent("the secret", 'a "reply"'))[0]
    assert json.loads(str(attributes(root)[v.INPUT_MESSAGES])) == [
        {"role": "user", "parts": [{"type": "text", "content": "the secret"}]}
    ]
    assert json.loads(str(attributes(root)[v.OUTPUT_MESSAGES]))[0]["parts"][0]["content"] == 'a "reply"'


def test_the_environment_of_opentelemetry_does_not_touch_the_spans(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "trace.jsonl"
    for name, value in {
        "OTEL_SDK_DISABLED": "true",
        "OTEL_TRACES_SAMPLER": "always_off",
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_SPAN_LINK_COUNT_LIMIT": "0",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://nowhere.invalid",
    }.items():
        monkeypatch.setenv(name, value)
    with TraceFile(path, {}) as trace:
        trace.write(answered(index=1), ANCHOR)
        spans = trace.write(answered(index=2), ANCHOR)
    assert read_turns(path).turns == (answered(index=1), answered(index=2))
    assert len(spans[0].links) == 1 and spans[0].resource.attributes["service.name"] == "turnscope"
