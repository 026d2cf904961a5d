"""The table of predictions on the terminal."""

from io import BytesIO, StringIO, TextIOWrapper

import pytest
from rich.console import Console

from profiling.interval import Interval
from profiling.predictions.prediction import Prediction, Verdict
from profiling.predictions.table import predictions
from profiling.report.predictions import print_predictions
from tests.profiling.predictions.simulated import Simulated, conditions

FEW = Interval(value=0.0117, low=0.0115, high=0.0121, n=12)
ROWS = [
    Prediction("decode", "bytes / bandwidth", "s per token", FEW, FEW, Verdict.PASS, "66% of the ceiling."),
    Prediction("thinking", "tokens / speed", "s", None, None, None, "No unspoken tokens in this run."),
    Prediction("playback", "no gaps", "s per s", Interval.exactly(0.0), FEW, Verdict.HIGH),
    Prediction("prefill", "arithmetic", "s", FEW, FEW.scaled(1e-3), Verdict.IMPOSSIBLE, "Impossible: [too] fast."),
]


def printed(rows: list[Prediction], width: int, colour: bool = False) -> str:
    file = StringIO()
    console = Console(file=file, width=width, force_terminal=colour, color_system="standard" if colour else None)
    print_predictions(console, rows)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 96, 100, 200])
def test_the_table_fits_and_tells_everything(width: int) -> None:
    rows = predictions(Simulated(0).turns(8), conditions(Simulated(0).calibration()))
    lines = printed(rows, width).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    told = " ".join(" ".join(lines).split())
    for row in rows:
        assert row.law.split()[0] in told and row.note.split()[0] in told
    assert all(word in told for word in ("PASS", "HIGH", "predicted", "measured", "verdict"))


def test_figures_have_their_unit_and_their_bounds() -> None:
    told = printed(ROWS, 80)
    assert "11.7 ms" in told and "11.5 - 12.1" in told and "0 s/s" in told and "11.7 us" in told
    assert "thinking: No unspoken tokens in this run." in told
    assert "[too] fast" in told  # notes are no markup


def test_verdicts_have_their_colours() -> None:
    told = printed(ROWS, 80, colour=True)
    assert "\x1b[92mPASS" in told and "\x1b[93mHIGH" in told and "\x1b[91mIMPOSSIBLE" in told


def test_a_terminal_without_unicode_gets_ascii() -> None:
    buffer = BytesIO()
    file = TextIOWrapper(buffer, encoding="ascii")
    print_predictions(Console(file=file, width=80), ROWS)
    file.flush()
    assert b"decode" in buffer.getvalue() and b"thinking" in buffer.getvalue()


def test_a_run_without_rows_prints_an_empty_table() -> None:
    assert "law" in printed([], 80)
