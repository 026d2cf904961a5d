"""Measured against predicted, as tables for a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from agent.experiments.full_size.samples import Row
from profiling.machine import Ceiling

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TITLES = {"asr": "Recogniser", "llm": "Language model", "tts": "Voice", "turn": "One turn through all three"}


def tables(rows: Sequence[Row], ceilings: Mapping[str, Mapping[str, Ceiling]]) -> Iterable[Table]:
    """One for each engine, with its ceilings in the caption."""
    for engine in dict.fromkeys(row.sample.engine for row in rows):
        yield _table(engine, [row for row in rows if row.sample.engine == engine], ceilings.get(engine, {}))


def _table(engine: str, rows: Sequence[Row], ceilings: Mapping[str, Ceiling]) -> Table:
    table = Table(
        title=_TITLES.get(engine, engine),
        title_justify="left",
        title_style="bold",
        caption="\n".join(_told(name, ceiling) for name, ceiling in ceilings.items()),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("stage and part", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("from - to", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("law", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row), style=None if row.sample.part is None else "dim")
    return table


def _cells(row: Row) -> list[Text | str]:
    sample = row.sample
    times = sample.measured_s
    name = sample.stage if sample.part is None else f"  {sample.part}"
    spread = f"{duration(min(times))} - {duration(max(times))}" if len(times) > 1 else ""
    predicted = "" if row.predicted_s is None else duration(row.predicted_s)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [Text(name), duration(row.median_s), spread, str(len(times)), predicted, ratio, row.law, Text(sample.note)]


def duration(s: float) -> str:
    """Three digits and the unit that suits."""
    if s == 0:
        return "0"
    if s >= 1:
        return f"{s:.2f} s"
    return f"{s * 1e3:.3g} ms" if s >= 1e-3 else f"{s * 1e6:.3g} us"


def rate(value: float, unit: str) -> str:
    for factor, prefix in _UNITS:
        if value >= factor:
            return f"{value / factor:.1f} {prefix}{unit}"
    return f"{value:.1f} {unit}"


def _told(name: str, ceiling: Ceiling) -> str:
    place = ceiling.device if ceiling.device != "cpu" else f"{ceiling.threads} threads"
    middle, low, high = (rate(value, ceiling.unit) for value in (ceiling.median, ceiling.lowest, ceiling.highest))
    return f"{name}: {middle} ({low} to {high}, n = {len(ceiling.values)}, {place})"
