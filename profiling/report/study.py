"""A study's finding as a table for the terminal, and its plot as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from profiling.studies.finding import Finding, Plot, Series

_SIZE_IN, _DPI = (8.0, 4.5), 150
_COLOURS = ("#2563eb", "#d97706", "#059669", "#c026d3", "#dc2626", "#475569")


def table(finding: Finding) -> Table:
    """The first column on the left, figures on the right; what stands after them in words may wrap."""
    shown = Table(title=finding.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(finding.columns):
        shown.add_column(name, justify="right" if number else "left", no_wrap=number == 0)
    for row in finding.rows:
        shown.add_row(*row)
    return shown


def draw(plot: Plot, path: Path) -> None:
    """Write the plot as a PNG file. Raises OSError."""
    from matplotlib.figure import Figure  # imported late: it takes most of a second

    figure: Any = Figure(figsize=_SIZE_IN, dpi=_DPI, layout="constrained")  # its types are only partly known
    axes: Any = figure.add_subplot()
    bars = [series for series in plot.series if series.style == "bars"]
    for number, series in enumerate(plot.series):
        colour = _COLOURS[number % len(_COLOURS)]
        if series.style == "bars":
            width = 0.8 / len(bars)
            centres = [at + (bars.index(series) - (len(bars) - 1) / 2) * width for at in range(len(series.y))]
            axes.bar(centres, series.y, width, label=series.label, color=colour, yerr=_errors(series), capsize=3)
            axes.set_xticks(range(len(series.x)), [str(x) for x in series.x])
        else:
            marker, line = ("o", "none") if series.style == "points" else ("", "-")
            axes.errorbar(
                series.x,
                series.y,
                yerr=_errors(series),
                label=series.label,
                color=colour,
                marker=marker,
                linestyle=line,
                capsize=3,
            )
    if plot.log_x:
        axes.set_xscale("log", base=2)
    if plot.log_y:
        axes.set_yscale("log")
    elif plot.from_zero:
        axes.set_ylim(bottom=0)
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)


def _errors(series: Series) -> list[Sequence[float]] | None:
    if series.low is None or series.high is None:
        return None
    below = [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
    above = [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]
    return [below, above]
