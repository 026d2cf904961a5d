"""`turnscope what-if` on a run folder: a table, or one sentence."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli.what_if import what_if
from agent.errors import TurnscopeError
from profiling.run import RunWriter
from profiling.trace.clock import SystemClock
from tests.profiling.turns import answered, interrupted


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    writer = RunWriter(tmp_path, "three-turns", SystemClock(), settings={"asr": {"flush": True}})
    for turn in (answered(index=1), answered({"phrase": 30}, index=2), interrupted(index=3)):
        writer.write_turn(turn)
    writer.close(complete=True)
    return writer.folder


def said(*arguments: object) -> str:
    result = CliRunner().invoke(what_if, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.output.split())


def test_a_run_is_asked_about_all_its_turns_or_one(run_folder: Path) -> None:
    assert "20 thinking tokens · the medians of 2 turns" in said(run_folder, "--thinking", "20")
    assert "no endpoint wait · turn 2" in said(run_folder, "--no-endpoint-wait", "--turn", 2)
    assert "a hangover of 500 ms" in said(run_folder, "--hangover", "500ms", "--thinking", "5 tokens")
    assert "only the cadence of partial transcripts" in said(run_folder, "--chunk", "160")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "Say what would be otherwise"),
        (("--bandwidth", "905"), "--bandwidth: '905' has no unit"),
        (("--chunk", "0"), "--chunk must be more than zero"),
        (("--quant", "Q8_0"), "the work of smollm2 is not known"),
        (("--diffusion-steps", "4"), "piper has no diffusion steps"),
        (("--thinking", "4", "--turn", "9"), "There is no turn 9: the run has 3"),
        (("--thinking", "4", "--turn", "3"), "Turn 3 has no latency that counts"),
        (("--hangover", "300", "--no-endpoint-wait"), "exclude each other"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(run_folder: Path, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(TurnscopeError, match=why):
        said(run_folder, *arguments)
