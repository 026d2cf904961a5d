"""The table of predictions on the terminal: each law beside what the run measured, and the verdict."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from profiling.interval import Interval
from profiling.predictions.prediction import Prediction, Verdict
from profiling.report.style import glyphs_for, plain

COLOUR_OF_VERDICT = {
    Verdict.PASS: "bright_green",
    Verdict.HIGH: "bright_yellow",
    Verdict.LOW: "bright_yellow",
    Verdict.IMPOSSIBLE: "bright_red",
    Verdict.TOO_FEW: "grey62",
}
MAX_WIDTH, WITH_NOTES = 100, 96  # columns; in a narrower terminal the notes follow the table
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_PER_SOUND = "s per s"


def print_predictions(console: Console, rows: Sequence[Prediction]) -> None:
    """Print one row for each prediction, and its note beside it or below the table."""
    width = min(console.width, MAX_WIDTH)
    beside = width >= WITH_NOTES
    console.print(_table(console, rows, beside), width=width)
    for row in rows if not beside else ():
        if row.note:
            note = Text.assemble((f"{row.law}: ", "dim"), plain(row.note, console))
            console.print(Padding(note, (0, 0, 0, 2)), width=width)


def _table(console: Console, rows: Sequence[Prediction], with_notes: bool) -> Table:
    table = Table(
        title="Predicted and measured",
        title_justify="left",
        title_style="bold",
        caption="Medians over turns, each brought to the median turn's size, and 95 % intervals.",
        caption_justify="left",
        box=_box(console),
        pad_edge=False,
    )
    table.add_column("law", max_width=27, overflow="fold")
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if with_notes:
        table.add_column("note", style="dim", overflow="fold")
    none = glyphs_for(console).none
    for row in rows:
        cells = [_law(row, console), _shown(row.predicted, row.unit, none), _shown(row.measured, row.unit, none)]
        cells += [Text(none if row.measured is None else str(row.measured.n)), _verdict(row.verdict, none)]
        table.add_row(*cells, *([Text(plain(row.note, console))] if with_notes else []))
    return table


def _law(row: Prediction, console: Console) -> Text:
    return Text.assemble((row.law, "bold"), "\n", (plain(row.formula, console), "dim"))


def _verdict(verdict: Verdict | None, none: str) -> Text:
    return Text(none) if verdict is None else Text(verdict.value, COLOUR_OF_VERDICT[verdict])


def _shown(interval: Interval | None, unit: str, none: str) -> Text:
    """The value with its unit, and below it the bounds in the same unit."""
    if interval is None:
        return Text(none)
    factor, name = _scale(interval.value or interval.high) if unit != _PER_SOUND else (1.0, "")
    value, low, high = (_digits(bound / factor) for bound in (interval.value, interval.low, interval.high))
    shown = Text(f"{value} {name or 's/s'}")
    return shown if interval.low == interval.high else shown.append(f"\n{low} - {high}", "dim")


def _scale(value: float) -> tuple[float, str]:
    return next(((factor, name) for factor, name in _UNITS if value >= factor), (1e-3, "ms"))


def _digits(value: float) -> str:
    """Three of them."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def _box(console: Console) -> box.Box:
    return box.ASCII2 if glyphs_for(console).none == "-" else box.SIMPLE_HEAD
