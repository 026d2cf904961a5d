"""What would be otherwise, as a table: where the latency goes now and where it would go, then what that rests on."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from profiling.interval import Interval
from profiling.report.style import glyphs_for, plain
from profiling.report.wording import LABEL
from profiling.trace.vocabulary import Stage
from profiling.what_if import Row, WhatIf

_LABEL_CELLS, _NUMBER_CELLS, _BOUNDS_CELLS = 20, 10, 20
_LEAST_SHOWN_S = 0.00005  # what is less on both sides is left out, but for our own


def print_what_if(console: Console, result: WhatIf, turn: int | None = None) -> None:
    """`turn` is the number of the only one that was asked about; without it the figures are medians."""
    lines = [*_title(result, turn, console), Text(), *_table(result, console), Text()]
    width = max(60, min(console.width, 120))
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    for sentence in _sentences(result, turn):
        for line in sentence.wrap(console, width - 2):
            line.rstrip()
            console.print(Text("  ").append_text(line), soft_wrap=True, highlight=False)


def _title(result: WhatIf, turn: int | None, console: Console) -> Iterator[Text]:
    glyphs = glyphs_for(console)
    what = plain(" and ".join(result.labels), console)
    where = f"turn {turn}" if turn is not None else f"the medians of {result.turns} turns"
    if result.turns == 1 and turn is None:
        where = "the turn that counts"
    yield Text.assemble((f"{glyphs.rule * 2} ", "dim"), ("What if: ", "bold"), (what, "bold"), f" {glyphs.dot} {where}")


def _table(result: WhatIf, console: Console) -> Iterator[Text]:
    head = f"{'milliseconds':<{_LABEL_CELLS}}{'before':>{_NUMBER_CELLS}}{'after':>{_NUMBER_CELLS}}"
    yield Text(f"  {head}{'between':>{_BOUNDS_CELLS}}{'change':>{_NUMBER_CELLS}}", "dim")
    for row in result.rows:
        if max(row.before, row.after.value) >= _LEAST_SHOWN_S:
            yield Text(_cells(row))
    rule = glyphs_for(console).rule
    yield Text("  " + rule * (_LABEL_CELLS + 3 * _NUMBER_CELLS + _BOUNDS_CELLS), "dim")
    yield Text(_cells(result.latency), "bold")


def _cells(row: Row) -> str:
    name = "turn latency" if row.stage is None else LABEL[Stage(row.stage)]
    change = row.after.value - row.before
    shown = f"{change * 1000:+,.1f}" if abs(change) >= _LEAST_SHOWN_S else "0"
    return (
        f"  {name:<{_LABEL_CELLS}}{_ms(row.before):>{_NUMBER_CELLS}}{_ms(row.after.value):>{_NUMBER_CELLS}}"
        f"{_bounds(row.after):>{_BOUNDS_CELLS}}{shown:>{_NUMBER_CELLS}}"
    )


def _bounds(interval: Interval) -> str:
    return f"{_ms(interval.low)} - {_ms(interval.high)}"


def _ms(value_s: float) -> str:
    return f"{value_s * 1000:,.1f}"


def _sentences(result: WhatIf, turn: int | None) -> Iterator[Text]:
    yield Text(_answer(result.latency), "bold")
    if result.switched:
        where = "The" if turn is not None else f"In {result.switched} of {result.turns} turns the"
        yield Text(f"{where} critical path switches: it runs through steps that were hidden before.")
    if turn is None and result.turns > 1:
        yield Text("Each median is its row's own, so the parts need not sum to the latency.", "dim")
    for sentence in result.caveats:
        yield Text(sentence, "dim")


def _answer(latency: Row) -> str:
    before, after = latency.before * 1000, latency.after.scaled(1000)
    between = f"measured again, it would lie between {after.low:,.0f} and {after.high:,.0f} ms"
    change = after.value - before
    if abs(change) < 0.05:
        return f"The latency would stay as it is: {before:,.0f} ms; {between}."
    way = "shorter" if change < 0 else "longer"
    share = f" ({abs(change) / before:.0%})" if before else ""
    sentence = f"The latency would be {abs(change):,.0f} ms{share} {way}: {after.value:,.0f} ms; {between}."
    hardly = after.low <= before <= after.high
    return f"{sentence} It varies by more than this from one time to the next." if hardly else sentence
