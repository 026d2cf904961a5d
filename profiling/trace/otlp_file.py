"""The trace file: OTLP JSON, one ExportTraceServiceRequest (one turn) per line."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from types import TracebackType
from typing import Any, cast

from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from profiling.trace.clock import Anchor
from profiling.trace.garbage import no_search_for_cycles
from profiling.trace.integer_arrays import loads
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
    with no_search_for_cycles():
        for record in _records(path, problems):
            traces.setdefault(record.trace_id, {}).setdefault(record.span_id, record)
        rebuilt = [(trace_id, rebuild_turn(list(traces.pop(trace_id).values()))) for trace_id in list(traces)]
    problems += [f"Trace {i} has no span of a turn as a whole and was passed over." for i, turn in rebuilt if not turn]
    found = sorted((turn for _, turn in rebuilt if turn), key=lambda r: (r.start_wall_ns, r.turn.index))
    problems += [warning for turn in found for warning in turn.warnings]
    if not rebuilt and not problems:
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
                request = loads(line)
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
        known = cast(dict[str, Any], span)
        return SpanRecord(
            bytes.fromhex(known["traceId"]).hex(),
            bytes.fromhex(known["spanId"]).hex(),
            _integer(known.get("startTimeUnixNano") or 0),
            _attributes(known.get("attributes") or ()),
        )
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return None


def _attributes(pairs: Iterable[dict[str, Any]]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for pair in pairs:
        value = _value(pair.get("value") or {})
        if value is not None:
            found[intern(pair.get("key") or "")] = value
    return found


def _value(value: dict[str, Any]) -> Attribute | None:
    """None where it is of a kind that no attribute of turnscope has, or an integer beyond 64 bits."""
    for kind, content in value.items():
        if content is not None and (decode := _DECODERS.get(kind)):
            return decode(content)
    return None


def _array(array: dict[str, Any] | list[int]) -> Attribute | None:
    """A list is of integers alone (`integer_arrays`), and may be as long as a reply."""
    if isinstance(array, list):
        return tuple(array) if min(array) in _INT64 and max(array) in _INT64 else None
    values = [_value(item) for item in array.get("values") or ()]
    return (
        None if any(value is None or isinstance(value, tuple) for value in values) else cast(Attribute, tuple(values))
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError("not a text")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError("neither true nor false")


def _integer(value: Any) -> int:
    """OTLP writes one of 64 bits as text."""
    if isinstance(value, str | int):
        return int(value)
    raise TypeError("not an integer")


def _int64(value: Any) -> int | None:
    integer = int(value) if isinstance(value, str) else _integer(value)
    return integer if integer in _INT64 else None


_DECODERS: dict[str, Callable[[Any], Attribute | None]] = {
    "stringValue": _text,
    "boolValue": _truth,
    "intValue": _int64,
    "doubleValue": float,
    "arrayValue": _array,
}


def _items(value: object, key: str) -> Iterable[object]:
    items = _get(value, key)
    return cast(list[object], items) if isinstance(items, list) else ()


def _get(value: object, key: str) -> object:
    return cast(dict[str, object], value).get(key) if isinstance(value, dict) else None
