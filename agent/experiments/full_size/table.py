"""Measured against predicted, as tables for a terminal: at the machine's ceilings, and by the laws of small models."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from agent.experiments.full_size.samples import Row
from profiling.extrapolation import TOLERANCE
from profiling.extrapolation_reasons import percent
from profiling.machine import Ceiling

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TITLES = {"asr": "Recogniser", "llm": "Language model", "tts": "Voice", "turn": "One turn through all three"}


def tables(rows: Sequence[Row], ceilings: Mapping[str, Mapping[str, Ceiling]]) -> Iterable[Table | Text]:
    """One for each engine, its ceilings in the caption, and below it why laws do not hold; at last a line on all."""
    for engine in dict.fromkeys(row.sample.engine for row in rows):
        those = [row for row in rows if row.sample.engine == engine]
        yield _table(engine, those, ceilings.get(engine, {}))
        yield from (_why(row) for row in those if row.reasons and row.sample.part is None)
    yield from _summary([row for row in rows if row.compared is not None and row.sample.part is None])


def _why(row: Row) -> Text:
    assert row.compared is not None  # or there were no reasons
    return Text(f"{row.sample.stage}, {row.compared.ratio:.2f} of its law: {'; '.join(row.reasons)}.")


def _summary(stages: Sequence[Row]) -> Iterable[Text]:
    if stages:
        holding = sum(row.compared is not None and row.compared.holds for row in stages)
        yield Text(
            f"{holding} of {len(stages)} stages lie within {percent(TOLERANCE)} of the laws fitted on small models."
        )


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
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("ceilings", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("by law", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("bound", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row), style=None if row.sample.part is None else "dim")
    return table


def _cells(row: Row) -> list[Text | str]:
    sample = row.sample
    times = sample.measured_s
    name = sample.stage if sample.part is None else f"  {sample.part}"
    middle = row.median_s
    spread = f"± {(max(times) - min(times)) / 2 / middle * 100:.0f} %" if len(times) > 1 and middle else ""
    predicted = "" if row.predicted_s is None else duration(row.predicted_s)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    law = row.compared
    by_law = ("", "") if law is None else (duration(law.predicted.value), f"{law.ratio:.2f}")
    of_ceilings = (predicted, ratio)
    return [
        Text(name), duration(middle), spread, str(len(times)), *of_ceilings, *by_law, row.law, Text(sample.note)
    ]  # fmt: skip


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
