"""Point 11: traces that are cut off, out of order, another program's or an older version's."""

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from profiling.critical_path import critical_path
from profiling.operations import operations
from profiling.report.terminal import print_summary, print_turn
from profiling.run import Run, RunUnreadable, load_run
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import turn_facts
from tests.fakes.talk import says
from tests.proof.recorded import recorded_talk


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, tuple[Turn, ...]]:
    """The trace and the run.json of a conversation of three turns, one of them interrupted, and the turns."""
    said = [says("hello how are you"), says("tell me a story", "reply_end", 0.3), says("stop", "reply_start", 0.4)]
    replies = ["Fine, thank you.", "Once upon a time there was a dragon by the sea.", "I did."]
    _, folder = recorded_talk(tmp_path_factory.mktemp("runs"), said, replies)
    turns = load_run(folder).turns
    assert [turn.end_reason for turn in turns] == [EndReason.COMPLETED, EndReason.INTERRUPTED, EndReason.COMPLETED]
    return (folder / "trace.jsonl").read_bytes(), (folder / "run.json").read_bytes(), turns


def explained(run: Run) -> str:
    """All that explaining does with a run, from its turns to the last line."""
    console = Console(file=io.StringIO(), width=100)
    for number, turn in enumerate(run.turns, 1):
        path = critical_path(turn)
        assert (path is None) == (turn.latency_ns is None or turn.latency_ns < 0)
        assert path is None or path.total_ns == turn.latency_ns
        assert all(operation.step < len(turn.steps) for operation in operations(turn))
        turn_facts(turn)
        print_turn(console, turn, number)
    print_summary(console, run.turns)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def put(folder: Path, trace: bytes, info: bytes | None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "trace.jsonl").write_bytes(trace)
    (folder / "run.json").unlink(missing_ok=True)
    if info is not None:
        (folder / "run.json").write_bytes(info)
    return folder


def read(folder: Path, trace: bytes, info: bytes | None) -> tuple[Run | None, tuple[str, ...]]:
    """The run, if there is one, and the sentences that were said."""
    try:
        run = load_run(put(folder, trace, info))
    except RunUnreadable as error:
        return None, (str(error),)
    return run, run.warnings


def sentences(said: tuple[str, ...]) -> bool:
    return all(one.endswith(".") and "\n" not in one and "Traceback" not in one for one in said)


def cuts(trace: bytes) -> Iterator[int]:
    """Around the end of every line each byte, and a sample of all others."""
    ends = [index + 1 for index, byte in enumerate(trace) if byte == 10]
    near = {end + by for end in [0, *ends] for by in range(-3, 4)}
    yield from sorted({cut for cut in near if 0 <= cut < len(trace)} | set(range(0, len(trace), len(trace) // 100)))


def test_a_trace_cut_at_any_byte_is_read_to_its_last_whole_turn_and_says_what_is_lost(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path
) -> None:
    trace, info, turns = real
    for cut in cuts(trace):
        run, said = read(tmp_path / "run", trace[:cut], info)
        whole = trace[:cut].count(b"\n")
        rest = trace[:cut].rpartition(b"\n")[2]
        if rest and _is_json(rest):  # all of the line but its end
            whole, rest = whole + 1, b""
        assert sentences(said) and (run.turns if run else ()) == turns[:whole], cut
        assert any(f"Line {whole + 1} " in one and "cut off" in one for one in said) == bool(rest), (cut, said)
        assert whole or said
    whole_run, _ = read(tmp_path / "run", trace, info)
    assert whole_run is not None and explained(whole_run).count("Turn ") == 3


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_any_byte_of_a_trace_may_be_another(real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path) -> None:
    trace, info, _ = real
    rng = random.Random(11)
    for _ in range(80):
        at = rng.randrange(len(trace))
        spoilt = trace[:at] + bytes([rng.randrange(256)]) + trace[at + 1 :]
        run, said = read(tmp_path / "run", spoilt, info)
        assert sentences(said)
        if run is not None:
            explained(run)


def test_a_run_json_cut_at_any_byte_costs_a_sentence_and_no_turn(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path
) -> None:
    trace, info, turns = real
    line = trace.partition(b"\n")[0] + b"\n"
    for cut in range(0, len(info) - 2, 11):
        run, said = read(tmp_path / "run", line, info[:cut])
        assert run is not None and run.turns == turns[:1]
        assert len(said) == 1 and "run.json is damaged" in said[0]


def test_spans_and_lines_out_of_order_are_the_same_run(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path
) -> None:
    trace, info, turns = real
    parts = [json.dumps(request([span])).encode() for line in trace.splitlines() for span in spans_of(line)]
    random.Random(2).shuffle(parts)
    run, said = read(tmp_path / "run", b"\n".join(parts) + b"\n", info)
    assert run is not None and run.turns == turns and said == ()


def test_another_programs_trace_is_refused_and_beside_ours_passed_over(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path
) -> None:
    trace, info, turns = real
    other = json.dumps(ANOTHER_PROGRAM).encode() + b"\n"
    alone, said = read(tmp_path / "run", other, None)
    assert alone is None and len(said) == 1 and "2 spans are not turnscope's" in said[0]
    run, said = read(tmp_path / "run", other + trace, info)
    assert run is not None and run.turns == turns and len(said) == 1 and "2 spans are not turnscope's" in said[0]


@pytest.mark.parametrize(
    "text", ["hello\n", '{"traceEvents": [{"ph": "X"}]}\n', '[{"spans": []}]\n', "a,b\n1,2\n", "\ufeff{}\n", "\0" * 99]
)
def test_what_is_no_trace_at_all_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    run, said = read(tmp_path / "run", text.encode(), None)
    assert run is None and len(said) == 1 and sentences(said)


@pytest.mark.parametrize("depth", [2, 100, 250, 300, 310, 320, 330, 5000])
def test_arrays_in_arrays_however_deep_cost_at_most_their_span(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path, depth: int
) -> None:
    trace, info, turns = real
    nested = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    deep = json.dumps(request([{**span(9, "deep", None), "attributes": [{"key": "a", "value": "HERE"}]}]))
    run, said = read(tmp_path / "run", deep.replace('"HERE"', nested).encode() + b"\n" + trace, info)
    assert run is not None and run.turns == turns and sentences(said)


OLDER_RUN = {"format": 0, "name": "go-forward", "started": "2025-01-01T00:00:00+00:00"}


def test_an_older_version_that_knew_less_is_read_as_far_as_it_goes_and_says_what_is_missing(tmp_path: Path) -> None:
    trace = json.dumps(request(OLDER_TURN)).encode() + b"\n"
    run, said = read(tmp_path / "run", trace, json.dumps(OLDER_RUN).encode())
    assert run is not None and sentences(said)
    (turn,) = run.turns
    assert turn.latency_ns == 300_000_000 and [step.stage for step in turn.steps] == [
        Stage.ENDPOINT_WAIT,
        Stage.LLM_PREFILL,
    ]
    path = critical_path(turn)
    assert path is not None and path.totals == {Stage.UNATTRIBUTED: 300_000_000}
    assert any("the settings and versions of the run are not known" in one for one in said)
    assert any("does not say what 3 of its steps waited for" in one for one in said)
    assert any("does not say which step its first sound came from" in one for one in said)
    assert any("lacks 1 of its steps" in one for one in said)
    assert "unattributed" in explained(run)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (v.STEP_CAUSES, "of its steps waited for"),
        (v.TURN_FIRST_AUDIO_STEP, "which step its first sound came from"),
        (v.STEP_STAGE, "of its steps"),
        (v.STEP_START_NS, "of its steps"),
        (v.STEP_INDEX, None),
        (v.TURN_SPEECH_END_NS, None),
        (v.TURN_END_REASON, None),
        (v.START_TIMES_NS, None),
        (v.LLM_KV_BYTES, None),
        (v.GROUP, None),
        (v.MODEL, None),
        (v.TURN_INDEX, "no span of a turn as a whole"),
    ],
)
def test_an_attribute_that_an_older_version_did_not_write_does_no_harm(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path, key: str, words: str | None
) -> None:
    trace, info, _ = real

    def without(span: Any) -> None:
        span["attributes"] = [pair for pair in span.get("attributes", []) if pair["key"] != key]

    edited = b"\n".join(edit(line, without) for line in trace.splitlines()) + b"\n"
    run, said = read(tmp_path / "run", edited, info)
    assert sentences(said)
    if run is not None:
        explained(run)
    assert any(words in one for one in said) if words else True


@pytest.mark.parametrize("number", [0, 2, 99, -1])
def test_a_run_json_of_another_format_is_read_as_far_as_it_is_known(
    real: tuple[bytes, bytes, tuple[Turn, ...]], tmp_path: Path, number: int
) -> None:
    trace, info, turns = real
    changed = json.loads(info) | {"format": number, "unheard_of": {"a": [1]}}
    run, said = read(tmp_path / "run", trace, json.dumps(changed).encode())
    assert run is not None and run.turns == turns and run.info is not None and sentences(said)
    assert any("newer turnscope" in one for one in said) == (number > 1)


def spans_of(line: bytes) -> list[Any]:
    return json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]


def edit(line: bytes, change: Callable[[Any], None]) -> bytes:
    request = json.loads(line)
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        change(span)
    return json.dumps(request).encode()


def request(spans: list[Any], scope: str = "turnscope") -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": spans}]}]}


def pair(key: str, value: object) -> dict[str, Any]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: str(value)}}


def span(number: int, name: str, parent: int | None, **attributes: object) -> dict[str, Any]:
    made: dict[str, Any] = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"{number:016x}", "name": name}
    made |= {"startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "kind": 1}
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    return made | {"attributes": [pair(key, value) for key, value in attributes.items()]}


def older_step(index: int, stage: str, start_ns: int, **more: object) -> dict[str, Any]:
    known = {v.STEP_INDEX: index, v.STEP_STAGE: stage, v.STEP_START_NS: start_ns}
    return span(2 + index, stage, 1, **known, **more)


OLDER_ROOT = {
    v.CONVERSATION_ID: "c",
    v.TURN_INDEX: 1,
    v.TURN_SPEECH_START_NS: 0,
    v.TURN_SPEECH_END_NS: 1_000_000_000,
    v.TURN_FIRST_AUDIO_NS: 1_300_000_000,
    "turnscope.turn.version": 0,
}
OLDER_TURN = [
    span(1, "invoke_agent turnscope", None, **OLDER_ROOT),
    older_step(0, "endpoint.wait", 1_000_000_000, **{v.STEP_END_NS: 1_200_000_000}),
    older_step(1, "llm.prefill", 1_200_000_000, **{v.STEP_END_NS: 1_250_000_000}),
    older_step(2, "tts.speak", 1_250_000_000),
]

ANOTHER_PROGRAM = {
    "resourceSpans": [
        {
            "resource": {"attributes": [pair("service.name", "shop")]},
            "scopeSpans": [
                {
                    "scope": {"name": "my.library", "version": "1.0.0"},
                    "spans": [
                        span(0xEEE19B7EC3C1B174, "GET /products", None, **{"http.request.method": "GET"}),
                        span(
                            0xEEE19B7EC3C1B175,
                            "chat gpt",
                            0xEEE19B7EC3C1B174,
                            **{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 12},
                        ),
                    ],
                }
            ],
        }
    ]
}
