"""A run's explanation on the terminal, from simulated turns whose parts are known."""

import io

import pytest
from rich.console import Console

from profiling.evidence import Evidence
from profiling.predictions.conditions import Conditions
from profiling.report.explanation import Explanation
from profiling.trace.timeline import Turn
from tests.profiling.predictions.simulated import BOOK, CEILINGS, Simulated


def shown(turns: list[Turn], evidence: Evidence, *, number: int | None = None, width: int = 100) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True, legacy_windows=False)
    conditions = Conditions(evidence.work_book, evidence.ceilings, evidence.calibration)
    explanation = Explanation(turns, evidence, conditions)
    if number is None:
        explanation.print_run(console)
    else:
        explanation.print_turn(console, number)
    return stream.getvalue()


def simulated(count: int = 8, **planted: object) -> tuple[list[Turn], Evidence]:
    world = Simulated(3)
    turns = [world.turn(index, **planted) for index in range(1, count + 1)]  # type: ignore[arg-type]
    return turns, Evidence(BOOK, world.calibration(), CEILINGS)


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{name} ")]
    return line.split(name, 1)[1].split()


def test_every_stage_has_a_row_whose_parts_sum_to_its_time() -> None:
    turns, evidence = simulated()
    text = shown(turns, evidence)
    for stage in ("LLM prefill", "LLM first phrase", "voice set-up"):
        total, *parts = [float(cell.replace(",", "")) for cell in row(text, stage)[:7] if cell != "—"]
        assert sum(parts) == pytest.approx(total, abs=0.35)
    compute, memory = row(text, "LLM first phrase")[1:3]
    assert float(compute) == 0 < float(memory)
    assert float(row(text, "LLM prefill")[1]) > 0


def test_one_turn_is_split_by_itself() -> None:
    turns, evidence = simulated(3)
    one, other = (row(shown(turns, evidence, number=place), "LLM prefill")[0] for place in (0, 1))
    assert one != other


def test_a_decode_that_reads_memory_is_said_to_and_more_bandwidth_would_help() -> None:
    turns, evidence = simulated(token_s=7.9e-3)
    text = shown(turns, evidence)
    assert row(text, "LLM first phrase")[-1] == "bandwidth"
    assert "Bound by reading memory" in text
    assert "1 % more bandwidth" in text and "one token fewer" in text


def test_the_predictions_follow_with_their_verdicts() -> None:
    turns, evidence = simulated()
    text = shown(turns, evidence)
    assert "Predicted and measured" in text
    assert "first audio" in text and "PASS" in text
    few = shown(turns[:3], evidence)
    assert "TOO FEW" in few and "PASS" not in few


def test_without_evidence_it_says_what_is_not_known_and_gives_no_figures() -> None:
    turns, _ = simulated(2)
    bare = Evidence(BOOK.model_copy(update={"operations": {}}), None, {})
    text = shown(turns, bare)
    assert "The work of llm.token is not known." in " ".join(text.split())
    assert row(text, "LLM prefill")[1:4] == ["—", "—", "—"]
    assert "Not calibrated" in text


def test_a_run_without_turns_has_only_the_table_of_predictions() -> None:
    _, evidence = simulated(1)
    text = shown([], evidence)
    assert "bound by" not in text and "Predicted and measured" in text


def test_it_fits_a_terminal_of_80_columns_but_for_the_row_of_shares() -> None:
    turns, evidence = simulated()
    lines = shown(turns, evidence, width=80).splitlines()
    assert max(len(line) for line in lines) <= 102
