"""Predictions without a run, as tables for a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from profiling.answers import Answer
from profiling.predict import decode_ceiling
from profiling.quantities import BANDWIDTH, three_digits
from profiling.report.style import glyphs_for

_IMPOSSIBLE = "IMPOSSIBLE"


def print_answers(console: Console, title: str, answers: Iterable[Answer], sources: Sequence[str]) -> None:
    """One row per answer; the sources of what was not given stand below."""
    table = _titled_table(title, console)
    table.add_column("what", no_wrap=True)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("law", style="dim", overflow="fold")
    for answer in answers:
        refused = f"{_IMPOSSIBLE}: {answer.impossible}" if answer.impossible else answer.law
        table.add_row(Text(answer.what), answer.shown, Text(refused), style="red" if answer.impossible else None)
    console.print(table)
    _print_lines(console, sources)


def print_ceilings(
    console: Console,
    title: str,
    bytes_per_s: Mapping[str, float],
    bytes_per_token: Mapping[str, float],
    sources: Sequence[str],
) -> None:
    """Tokens per second that a single stream writes at most: a row per machine, a column per model."""
    table = _titled_table(title, console)
    table.add_column("machine", no_wrap=True)
    table.add_column("bandwidth", justify="right", no_wrap=True)
    for name in bytes_per_token:
        table.add_column(name, justify="right")
    for machine, bandwidth in bytes_per_s.items():
        speeds = (three_digits(decode_ceiling(bandwidth, read)) for read in bytes_per_token.values())
        table.add_row(machine, BANDWIDTH.shown(bandwidth), *speeds)
    console.print(table)
    _print_lines(console, sources)


def _titled_table(title: str, console: Console) -> Table:
    style = box.SIMPLE_HEAD if glyphs_for(console).rule != "-" else box.ASCII2
    console.print(Text(title, "bold"), soft_wrap=True)
    return Table(box=style, pad_edge=False, show_edge=False)


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
