"""A survey of the machine as tables for a terminal."""

from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from profiling.interval import Interval
from profiling.machine.measured import MeasuredCeiling, Overhead
from profiling.machine.survey import Survey

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def tables(survey: Survey) -> Iterable[Table]:
    """Ceilings, then what an empty step costs."""
    yield _ceilings(survey)
    if survey.overheads:
        yield _overheads(survey.overheads)


def facts(survey: Survey) -> list[str]:
    """Lines about the machine and its clock while it was surveyed."""
    machine = survey.machine
    cores = f"{machine.usable_cores} of {machine.cores} cores usable"
    cache = "" if survey.cache_bytes is None else f", last cache {survey.cache_bytes / (1 << 20):.0f} MiB"
    lines = [f"{machine.cpu}: {cores}{cache}, {' '.join(survey.instruction_sets) or 'instruction sets unknown'}"]
    lines += [f"{device}: {name}" for device, name in survey.devices.items()]
    if mhz := [conditions.mhz for conditions in survey.conditions if conditions.mhz]:
        lowest, highest = min(low for low, _ in mhz), max(high for _, high in mhz)
        lines.append(f"Clock {lowest:.0f} to {highest:.0f} MHz" if lowest < highest else f"Clock {highest:.0f} MHz")
    lines += [f"{gpu}: {clock.mhz:.0f} of {clock.most_mhz:.0f} MHz at work" for gpu, clock in survey.gpus.items()]
    return lines


def rate(value: float, unit: str) -> str:
    """Three digits and the prefix that suits."""
    factor, prefix, digits = _scale(value)
    return f"{value / factor:.{digits}f} {prefix}{unit}"


def bounds(interval: Interval, unit: str) -> str:
    """With the value's prefix and digits."""
    factor, prefix, digits = _scale(interval.value)
    return f"{interval.low / factor:.{digits}f} - {interval.high / factor:.{digits}f} {prefix}{unit}"


def _scale(value: float) -> tuple[float, str, int]:
    factor, prefix = next(((f, p) for f, p in _UNITS if abs(value) >= f), (1.0, ""))
    return factor, prefix, 0 if abs(value) >= 100 * factor else 1 if abs(value) >= 10 * factor else 2


def _ceilings(survey: Survey) -> Table:
    table = _table("What this machine can do at most")
    for name, justify in (("ceiling", "left"), ("device", "left"), ("threads", "right"), ("value", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # pyright: ignore[reportArgumentType]
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("kernel path", style="dim", overflow="fold")
    for ceiling in survey.ceilings:
        table.add_row(*_cells(ceiling))
    return table


def _cells(ceiling: MeasuredCeiling) -> tuple[Text | str, ...]:
    interval = ceiling.interval
    threads = str(ceiling.threads) if ceiling.device == "cpu" else ""
    value, between = rate(interval.value, ceiling.unit), bounds(interval, ceiling.unit)
    return Text(ceiling.name), ceiling.device, threads, value, between, str(interval.n), Text(ceiling.kernel)


def _overheads(overheads: Iterable[Overhead]) -> Table:
    table = _table("What a step costs that has nothing to do")
    table.add_column("step", no_wrap=True)
    table.add_column("device", no_wrap=True)
    for name in ("each", "95 % interval", "a second", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kernel path", style="dim", overflow="fold")
    for overhead in overheads:
        each = overhead.each_s
        between = f"{_us(each.low)} - {_us(each.high)}"
        table.add_row(
            overhead.name, overhead.device, _us(each.value), between, _per_s(each), str(each.n), Text(overhead.kernel)
        )
    return table


def _per_s(each_s: Interval) -> str:
    return rate(1 / each_s.value, "").strip() if each_s.value > 0 else ""


def _us(s: float) -> str:
    return f"{s * 1e6:.2f} us"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
