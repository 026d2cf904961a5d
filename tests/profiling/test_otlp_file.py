"""The trace file: exact there and back, OTLP as its specification has it, and readable whatever happened to it."""

import errno
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from profiling.critical_path import critical_path
from profiling.trace import vocabulary as v
from profiling.trace.clock import Anchor
from profiling.trace.otlp_file import TraceFile, read_turns
from profiling.trace.spans import TurnContent
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.profiling.turns import MS, answered, interrupted, random_turn

ANCHOR = Anchor(123_456_789, 1_700_000_000_123_456_789)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def write(path: Path, *turns: Turn, content: TurnContent | None = None) -> list[str]:
    with TraceFile(path, {"service.version": "1"}) as trace:
        for turn in turns:
            trace.write(turn, ANCHOR, content)
    return path.read_text().splitlines()


def spans_in(line: str) -> list[Any]:
    return json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]


def edit(line: str, change: "Any") -> str:
    """The line after `change(span)` on every span; a span for which it returns False is left out."""
    request = json.loads(line)
    scope = request["resourceSpans"][0]["scopeSpans"][0]
    scope["spans"] = [span for span in scope["spans"] if change(span) is not False]
    return json.dumps(request)


def attribute(span: Any, key: str) -> Any:
    return next((pair["value"] for pair in span.get("attributes", []) if pair["key"] == key), None)


def test_random_turns_come_back_equal_to_the_nanosecond(path: Path) -> None:
    turns = [random_turn(random.Random(seed), index=seed) for seed in range(400)]
    write(path, *turns)
    result = read_turns(path)
    assert result.warnings == ()
    read = {turn.index: turn for turn in result.turns}
    assert len(read) == len(turns)
    for turn in turns:
        assert read[turn.index] == turn
    assert [critical_path(turn) for turn in turns] == [critical_path(read[turn.index]) for turn in turns]


def test_turns_are_read_in_the_order_in_which_they_began(path: Path) -> None:
    lines = write(path, answered(index=1), interrupted(index=2))
    path.write_text("\n".join(reversed(lines)) + "\n")
    assert [turn.index for turn in read_turns(path).turns] == [1, 2]


def test_a_line_is_otlp_json_as_the_specification_has_it(path: Path) -> None:
    (line,) = write(path, answered())
    root, child = spans_in(line)[:2]
    assert len(root["traceId"]) == 32 and len(root["spanId"]) == 16 and int(root["traceId"], 16)
    assert child["parentSpanId"] == root["spanId"]
    assert root["startTimeUnixNano"] == str(ANCHOR.to_wall_ns(1000 * MS))
    assert attribute(root, v.TURN_INDEX) == {"intValue": "1"}
    parsed = json.loads(line)
    for span in parsed["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # protobuf wants base64 where OTLP says hex
        for key in ("traceId", "spanId", "parentSpanId"):
            span.pop(key, None)
    message = json_format.ParseDict(parsed, ExportTraceServiceRequest())
    assert message.resource_spans[0].scope_spans[0].scope.name == "turnscope"
    assert len(message.resource_spans[0].scope_spans[0].spans) == len(spans_in(line))


def test_5000_token_times_are_kept(path: Path) -> None:
    turn = answered()
    times = tuple(k * 7 * MS for k in range(5000))
    step = turn.add(
        Stage.LLM_DECODE, 5000 * MS, 50_000 * MS, attributes={v.START_TIMES_NS: list(times), v.END_TIMES_NS: times}
    )
    write(path, turn)
    (read,) = read_turns(path).turns
    assert read.steps[step].attributes[v.START_TIMES_NS] == times == read.steps[step].attributes[v.END_TIMES_NS]


def test_what_was_said_is_in_the_file_only_when_asked_for(path: Path, tmp_path: Path) -> None:
    content = TurnContent("the planted secret", "and its answer")
    write(path, answered())
    assert "secret" not in path.read_text() and read_turns(path).contents == (None,)
    write(tmp_path / "asked.jsonl", answered(), content=content)
    result = read_turns(tmp_path / "asked.jsonl")
    assert result.contents == (content,) and result.turns == (answered(),)


def test_each_turn_is_in_the_file_as_soon_as_it_is_written(path: Path) -> None:
    trace = TraceFile(path, {})
    trace.write(answered(index=1), ANCHOR)
    assert len(read_turns(path).turns) == 1
    trace.write(answered(index=2), ANCHOR)
    assert len(read_turns(path).turns) == 2
    trace.close()


def test_a_full_disk_leaves_whole_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """A file on a disk that takes 1000 bytes more."""

        def __init__(self, file: Any):
            self._file, self._left = file, 1000

        def write(self, data: memoryview) -> int:
            if not self._left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = self._file.write(data[: self._left])
            self._left -= written
            return written

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    trace = TraceFile(path, {})
    trace.write(answered(index=1), ANCHOR)
    whole = trace._file
    trace._file = Full(whole)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        trace.write(answered(index=2), ANCHOR)
    trace._file = whole
    trace.write(answered(index=3), ANCHOR)
    trace.close()
    result = read_turns(path)
    assert [turn.index for turn in result.turns] == [1, 3] and result.warnings == ()


def test_a_last_line_that_is_cut_off_costs_only_its_turn(path: Path) -> None:
    lines = write(path, answered(index=1), answered(index=2))
    for cut in (1, len(lines[1]) // 2, len(lines[1]) - 1):
        path.write_text(lines[0] + "\n" + lines[1][:cut])
        result = read_turns(path)
        assert result.turns == (answered(index=1),)
        assert len(result.warnings) == 1 and "Line 2" in result.warnings[0] and "cut off" in result.warnings[0]


def test_a_trace_that_a_collector_spread_over_lines_is_put_together(path: Path) -> None:
    lines = write(path, answered(index=1), answered(index=2))
    parts = [json.dumps(_request([span])) for line in lines for span in spans_in(line)]
    random.Random(1).shuffle(parts)
    path.write_text("\n".join([*parts, parts[0]]) + "\n")
    result = read_turns(path)
    assert result.turns == (answered(index=1), answered(index=2)) and result.warnings == ()


def test_a_missing_step_shows_as_unattributed(path: Path) -> None:
    (line,) = write(path, answered())
    path.write_text(edit(line, lambda span: span["name"] != "prefill"))
    result = read_turns(path)
    (turn,) = result.turns
    path_found = critical_path(turn)
    assert path_found is not None and path_found.total_ns == answered().latency_ns
    assert path_found.totals[Stage.UNATTRIBUTED] == path_found.total_ns - 223 * MS + 60 * MS
    assert len(result.warnings) == 1 and "lacks 1 of its steps" in result.warnings[0]


def test_a_turn_without_its_root_is_passed_over_in_one_sentence(path: Path) -> None:
    first, second = write(path, answered(index=1), answered(index=2))
    path.write_text(edit(first, lambda span: "parentSpanId" in span) + "\n" + second + "\n")
    result = read_turns(path)
    assert result.turns == (answered(index=2),) and len(result.warnings) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (v.STEP_INDEX, {"stringValue": "7"}),
        (v.STEP_INDEX, {"boolValue": True}),
        (v.STEP_STAGE, {"stringValue": "llm.telepathy"}),
        (v.STEP_STAGE, {"arrayValue": {"values": [{"intValue": "1"}]}}),
        (v.STEP_CAUSES, {"arrayValue": {"values": [{"intValue": "99"}, {"intValue": "-1"}, {"stringValue": "x"}]}}),
        (v.STEP_CAUSES, {"intValue": "5"}),
        (v.STEP_CAUSES, {"arrayValue": {"values": [{"arrayValue": {}}]}}),
        (v.STEP_START_NS, {"intValue": "99999999999999999999999"}),
        (v.STEP_START_NS, {"intValue": str(2**63 - 1)}),
        (v.STEP_END_NS, {"doubleValue": "NaN"}),
        (v.STEP_END_NS, {}),
        (v.STEP_WAITED_FOR, {"intValue": "1"}),
        (v.PHRASE, {"stringValue": "first"}),
        (v.TURN_INDEX, {"doubleValue": 1.5}),
        (v.CONVERSATION_ID, {"intValue": "1"}),
        (v.TURN_SPEECH_END_NS, {"stringValue": "now"}),
        (v.TURN_FIRST_AUDIO_STEP, {"intValue": "1000000000000"}),
        (v.TURN_END_REASON, {"stringValue": "bored"}),
        (v.GROUP, {"intValue": "3"}),
        (v.INPUT_MESSAGES, {"stringValue": "[1]"}),
        (v.MODEL, {"kvlistValue": {"values": []}}),
    ],
)
def test_a_strange_value_does_no_harm(path: Path, key: str, value: dict[str, object]) -> None:
    def change(span: Any) -> None:
        span["attributes"] = [pair for pair in span.get("attributes", []) if pair["key"] != key]
        span["attributes"].append({"key": key, "value": value})

    lines = write(path, answered(index=1), answered(index=2))
    path.write_text(edit(lines[0], change) + "\n" + lines[1] + "\n")
    result = read_turns(path)
    assert answered(index=2) in result.turns
    for turn in result.turns:
        found = critical_path(turn)
        assert found is None or found.total_ns == turn.latency_ns


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\x00\xff\xfe garbage",
        b"[" * 100_000,
        b'{"resourceSpans": 5}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [5, null, {}]}]}, null]}',
        b'{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "turnscope"}, "spans": [5, {}, {"spanId": "xyz"}]}]}]}',
        b'{"resourceLogs": []}',
        b"7",
        b'"text"',
        b"null",
    ],
)
def test_a_strange_line_costs_a_sentence_and_nothing_else(path: Path, line: bytes) -> None:
    (good,) = write(path, answered())
    path.write_bytes(line + b"\n\n" + good.encode() + b"\n")
    result = read_turns(path)
    assert result.turns == (answered(),)
    assert 1 <= len(result.warnings) <= 2 and all(w.endswith(".") and "\n" not in w for w in result.warnings)


def test_another_programs_trace_gives_no_turns_and_says_so(path: Path) -> None:
    path.write_text(json.dumps(_request([{"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "GET /"}], "http")) + "\n")
    result = read_turns(path)
    assert result.turns == () and result.warnings == (f"In {path} 1 span is not turnscope's and passed over.",)


def test_an_empty_file_says_so(path: Path) -> None:
    path.touch()
    assert read_turns(path).warnings == (f"The trace {path} is empty: no turn was finished.",)


def test_a_missing_file_is_an_oserror(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_turns(path)


def _request(spans: list[Any], scope: str = "turnscope") -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": spans}]}]}
