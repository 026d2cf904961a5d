"""The trace file: OTLP JSON, one ExportTraceServiceRequest (one turn) per line."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.proto_json.common.v1.common import AnyValue
from opentelemetry.proto_json.trace.v1.trace import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from profiling.trace.clock import Anchor
from profiling.trace.rebuild import SpanRecord, rebuild_turn
from profiling.trace.spans import SCOPE_NAME, TurnContent, turn_spans
from profiling.trace.timeline import Attribute, Turn

_INT64 = range(-(2**63), 2**63)


class TraceFile:
    """Appends turns to a trace file, each in one unbuffered write: a run that is killed leaves whole lines."""

    def __init__(self, path: Path, resource: Mapping[str, Attribute]):
        """Raises OSError. `resource` says what made the trace; `service.name` is set when it is not given."""
        self._resource = Resource({"service.name": SCOPE_NAME, **resource})
        self._previous: dict[str, int] = {}
        self._file = path.open("ab", buffering=0)

    def write(self, turn: Turn, anchor: Anchor, content: TurnContent | None = None) -> list[ReadableSpan]:
        """Append the turn and return its spans. `anchor` is the run's first; texts are written only when handed over.

        Raises OSError, for a full disk after taking back what was written of the line.
        """
        previous = self._previous.get(turn.conversation_id)
        spans = turn_spans(turn, anchor, self._resource, previous_index=previous, content=content)
        request = encode_spans(spans).to_dict()
        self._append(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        self._previous[turn.conversation_id] = turn.index
        return spans

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        size_bytes = self._file.seek(0, os.SEEK_END)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except BaseException:
            with suppress(OSError):
                self._file.truncate(size_bytes)
            raise


@dataclass(frozen=True)
class ReadResult:
    """The turns of a trace file in the order in which they began, the texts of each if the file has them, and one
    sentence for each thing that could not be read."""

    turns: tuple[Turn, ...]
    contents: tuple[TurnContent | None, ...]
    warnings: tuple[str, ...]


def read_turns(path: Path) -> ReadResult:
    """Read a trace file as far as it goes; lines and spans may be in any order. Raises OSError."""
    problems: list[str] = []
    traces: dict[str, dict[str, SpanRecord]] = {}
    for record in _records(path, problems):
        traces.setdefault(record.trace_id, {}).setdefault(record.span_id, record)
    rebuilt = [(trace_id, rebuild_turn(list(spans.values()))) for trace_id, spans in traces.items()]
    problems += [f"Trace {i} has no span of a turn as a whole and was passed over." for i, turn in rebuilt if not turn]
    found = sorted((turn for _, turn in rebuilt if turn), key=lambda r: (r.start_wall_ns, r.turn.index))
    problems += [warning for turn in found for warning in turn.warnings]
    if not traces and not problems:
        problems.append(f"The trace {path} is empty: no turn was finished.")
    return ReadResult(tuple(r.turn for r in found), tuple(r.content for r in found), tuple(problems))


def _records(path: Path, problems: list[str]) -> Iterator[SpanRecord]:
    """The spans that turnscope wrote, in the file's order. What else there is goes to `problems`."""
    passed_over: Counter[str] = Counter()
    bad_lines: dict[str, list[int]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                reason = "not JSON" if line.endswith(b"\n") else "cut off: the turn in it is lost"
                bad_lines.setdefault(reason, []).append(number)
                continue
            spans = list(_spans(request))
            if not spans:
                bad_lines.setdefault("without spans", []).append(number)
            for scope, span in spans:
                record = _record(span) if scope == SCOPE_NAME else None
                if record is not None:
                    yield record
                else:
                    passed_over["malformed" if scope == SCOPE_NAME else "not turnscope's"] += 1
    for reason, numbers in bad_lines.items():
        if len(numbers) == 1:
            problems.append(f"Line {numbers[0]} of {path} is {reason}.")
        else:
            problems.append(f"{len(numbers)} lines of {path} are {reason}, the first of them line {numbers[0]}.")
    for kind, count in passed_over.items():
        what = "1 span is" if count == 1 else f"{count} spans are"
        problems.append(f"In {path} {what} {kind} and passed over.")


def _spans(request: object) -> Iterator[tuple[object, object]]:
    """(name of the instrumentation scope, span) of whatever has the form of a trace request."""
    for resource_spans in _items(request, "resourceSpans"):
        for scope_spans in _items(resource_spans, "scopeSpans"):
            scope = _get(_get(scope_spans, "scope"), "name")
            for span in _items(scope_spans, "spans"):
                yield scope, span


def _record(span: object) -> SpanRecord | None:
    """None when the span is not as OTLP says it is."""
    try:
        decoded = Span.from_dict(cast(dict[str, Any], span))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    attributes = {pair.key or "": value for pair in decoded.attributes if (value := _plain(pair.value)) is not None}
    return SpanRecord(
        (decoded.trace_id or b"").hex(),
        (decoded.span_id or b"").hex(),
        decoded.start_time_unix_nano or 0,
        attributes,
    )


def _plain(value: AnyValue | None) -> Attribute | None:
    if value is None:
        return None
    if value.array_value is not None:
        items = [_scalar(item) for item in value.array_value.values]
        return None if None in items else cast(Attribute, tuple(items))
    return _scalar(value)


def _scalar(value: AnyValue) -> str | bool | int | float | None:
    if value.int_value is not None and value.int_value not in _INT64:
        return None
    kinds = (value.string_value, value.bool_value, value.int_value, value.double_value)
    return next((one for one in kinds if one is not None), None)


def _items(value: object, key: str) -> Iterable[object]:
    items = _get(value, key)
    return cast(list[object], items) if isinstance(items, list) else ()


def _get(value: object, key: str) -> object:
    return cast(dict[str, object], value).get(key) if isinstance(value, dict) else None
