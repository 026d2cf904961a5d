"""`turnscope explain RUN --against OTHER_RUN`: what two runs show together, and what it says where they cannot."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli.explain import explain
from agent.errors import TurnscopeError
from profiling.calibration import Calibration, Rates
from profiling.environment import Machine
from profiling.run import RunUnreadable, RunWriter
from profiling.run_evidence import keep_evidence
from profiling.trace.clock import SystemClock
from tests.profiling.simulated_runs import Pipeline, evidence, run


def folder(parent: Path, seed: int = 0, model: str = "gemma", parameters: float = 1e9, **values: float) -> Path:
    """A run of eight simulated turns with what it is explained with."""
    pipeline = Pipeline(**{"flops": 300e9, "noise": 0.03} | values)  # type: ignore[arg-type]
    writer = RunWriter(parent, "simulated", SystemClock(), settings={"llm": {"model": model}})
    for turn in run(pipeline, 8, seed):
        writer.write_turn(turn)
    writer.close(complete=True)
    book = evidence(pipeline).work_book
    assert book.llm
    rates = [
        Rates(name=name, unit="per s", device="cpu", threads=4, values=(value,) * 3)
        for name, value in (("read", pipeline.bandwidth), ("Q4_0", pipeline.flops))
    ]
    measured = Calibration(made="", machine=Machine.this(), engines={}, ceilings=tuple(rates))
    figures = book.llm.model_copy(update={"parameters": parameters})
    keep_evidence(writer.folder, book.model_copy(update={"llm": figures}), measured, None)
    return writer.folder


def explained(*arguments: object) -> Result:
    result = CliRunner().invoke(
        explain, [str(argument) for argument in arguments], catch_exceptions=False, env={"COLUMNS": "100"}
    )
    assert result.exit_code == 0
    return result


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_new_machine_of_the_same_speed(tmp_path: Path) -> None:
    old, new = folder(tmp_path), folder(tmp_path, 1, flops=600e9)
    told = words(explained(new, "--against", old).stdout)
    assert "new machine, same speed: Arithmetic is 2.0 times as fast as in the run before" in told
    assert "Compare bandwidths, not FLOP/s" in told and "2.00 times the arithmetic." in told
    assert "same speed" not in explained(new).stdout


def test_a_quantised_model_that_is_no_faster(tmp_path: Path) -> None:
    eight_bit, four_bit = folder(tmp_path, bits=8.5), folder(tmp_path, 1, token_fixed_s=0.0145)
    told = words(explained(four_bit, "--against", eight_bit).stdout)
    assert "quantised, but no faster: A token reads 0.53 times the bytes" in told
    assert "Unpacking the weights now bounds it" in told and "Decoding beside the run before:" in told
    faster = folder(tmp_path, 2)
    assert "quantised" not in explained(faster, "--against", eight_bit).stdout


def test_like_runs_are_told_to_be_alike(tmp_path: Path) -> None:
    result = explained(folder(tmp_path), "--against", folder(tmp_path, 1))
    assert "Models, machine and threads are as in the run before." in words(result.stderr)
    assert "1.00 times the bytes of a token" in words(result.stdout)
    assert "new machine" not in result.stdout and "quantised" not in result.stdout


def test_runs_of_different_models_are_not_compared_and_it_says_in_what_they_differ(tmp_path: Path) -> None:
    large, small = folder(tmp_path, model="large", bits=8.5, parameters=2e9), folder(tmp_path, token_fixed_s=0.0145)
    result = explained(small, "--against", large)
    noted = words(result.stderr)
    assert "language model gemma (before: large)" in noted
    assert "different ones: 1 billion parameters, before 2 billion. So the two are not compared." in noted
    assert "quantised" not in result.stdout and "beside the run before" not in words(result.stdout)
    assert "Predicted and measured" in result.stdout


def test_a_run_before_without_its_work_is_noted(tmp_path: Path) -> None:
    new, old = folder(tmp_path), folder(tmp_path, 1)
    (old / "work.json").unlink()
    noted = words(explained(new, "--against", old).stderr)
    assert "Of the run before: There is no readable work.json" in noted
    assert "How much work a token was is not known of the run before. So the two are not compared." in noted


def test_names_in_a_run_cannot_command_the_terminal(tmp_path: Path) -> None:
    result = explained(folder(tmp_path), "--against", folder(tmp_path, model="a\x1b[2Jb\n[red]c"))
    assert "\x1b" not in result.stderr and "gemma (before: a[2Jb[red]c)" in words(result.stderr)


@pytest.mark.parametrize("named", ["folder", "trace.jsonl", "run.json"])
def test_a_run_against_itself_is_one_sentence(tmp_path: Path, named: str) -> None:
    one = folder(tmp_path)
    with pytest.raises(TurnscopeError, match=r"is the very run that is explained: give another one to --against\.$"):
        explained(one, "--against", one if named == "folder" else one / named)


def test_a_run_that_is_not_there_or_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    one = folder(tmp_path)
    with pytest.raises(RunUnreadable, match="There is no run at"):
        explained(one, "--against", tmp_path / "absent")
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"\x00\xff not a trace")
    with pytest.raises(RunUnreadable, match="No turn can be read from"):
        explained(one, "--against", damaged)


def test_help_tells_of_it() -> None:
    told = words(explained("--help").stdout)
    assert "--against OTHER_RUN" in told and "quantised but no faster" in told
