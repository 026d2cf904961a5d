"""Point 7: the wall clock is set by two seconds in the middle of a turn."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli.explain import explain
from agent.events import Event, UserSaid
from profiling.critical_path import critical_path
from profiling.run import load_run
from profiling.trace.timeline import Turn
from tests.fakes.talk import Talk, says
from tests.proof.recorded import recorded_talk


def stepping(seconds: float) -> "object":
    """Steps the wall clock while the turn is answered."""

    def prepare(result: Talk) -> None:
        observe = result.observe

        def observing(event: Event) -> None:
            observe(event)
            if isinstance(event, UserSaid):
                result.clock.wall_offset_ns += round(seconds * 1e9)

        result.observe = observing  # type: ignore[method-assign,assignment]

    return prepare


def run_of(parent: Path, stepped_s: float) -> Path:
    _, folder = recorded_talk(parent, [says("hello how are you")], ["Fine."], prepare=stepping(stepped_s))  # type: ignore[arg-type]
    return folder


def times(turn: Turn) -> list[tuple[str, int, int]]:
    return [(step.stage, step.start_ns, step.end_ns) for step in turn.steps]


@pytest.mark.parametrize("stepped_s", [2.0, -2.0])
def test_durations_are_what_they_are_without_the_step_and_explain_warns(tmp_path: Path, stepped_s: float) -> None:
    steady, stepped = run_of(tmp_path / "steady", 0.0), run_of(tmp_path / "stepped", stepped_s)
    (expected,), (turn,) = load_run(steady).turns, load_run(stepped).turns
    assert times(turn) == times(expected) and critical_path(turn) == critical_path(expected)
    assert turn.latency_ns == expected.latency_ns is not None
    told = CliRunner().invoke(explain, [str(stepped)])
    assert told.exit_code == 0
    said = re.sub(r"\s+", " ", told.stderr)
    assert f"The system's clock moved by {stepped_s:+.3f} s" in said and "durations hold" in said
    quiet = CliRunner().invoke(explain, [str(steady)])
    assert quiet.exit_code == 0 and "clock" not in quiet.stderr
    assert told.stdout == quiet.stdout


def test_the_spans_of_a_turn_keep_their_lengths_and_their_order_on_the_wall_clock(tmp_path: Path) -> None:
    steady, stepped = (run_of(tmp_path / name, s) for name, s in (("steady", 0.0), ("stepped", 2.0)))
    texts = [
        re.sub(r'"(traceId|spanId|parentSpanId)":"\w+"', "", (f / "trace.jsonl").read_text()) for f in (steady, stepped)
    ]
    ids = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
    assert ids.sub("", texts[0]) == ids.sub("", texts[1])
