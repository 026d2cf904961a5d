"""A calibration as tables: the law of every operation, and the ceilings of the libraries that compute it."""

from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from profiling import operations as op
from profiling.calibration import Calibration, Sample
from profiling.fit import Fit
from profiling.interval import Interval
from profiling.quantities import three_digits

_NAMES = {
    op.VAD: "voice detector, a frame",
    op.SMART_TURN: "turn detector, a question",
    op.ASR_STEP: "recogniser, a step",
    op.PREFILL: "LLM, a prompt",
    op.TOKEN: "LLM, a token",
    op.SETUP: "voice, set-up",
    op.FIRST_PATCH: "voice, first patch",
    op.PATCH: "voice, later patch",
}
_UNITS = {
    op.ENCODED_S: ("second encoded", 1.0),
    op.TOKENS: ("token", 1.0),
    op.PASSES: ("pass", 1.0),
    op.KV_BYTES: ("MB of KV cache", 1e6),
    op.UNITS: ("phoneme or text token", 1.0),
    op.FORWARDS: ("forward", 1.0),
}


def tables(calibration: Calibration) -> Iterable[Table]:
    """The laws, then the ceilings."""
    engines = ", ".join(calibration.engines.values())
    laws = Table(title=f"Alone: {engines}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in ("operation", "time, in ms"):
        laws.add_column(column)
    for column in ("median", "n"):
        laws.add_column(column, justify="right", no_wrap=True)
    for name in op.OPERATIONS:
        law, samples = calibration.law(name), calibration.of(name)
        if law is not None:
            laws.add_row(_NAMES[name], Text(_formula(law)), _ms(_median(samples)), str(law.n))
    yield laws
    if calibration.ceilings:
        yield _ceilings(calibration)


def _ceilings(calibration: Calibration) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("arithmetic in use")
    for column in ("GFLOP/s", "from - to", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for rates in calibration.ceilings:
        low, high = min(rates.values) / 1e9, max(rates.values) / 1e9
        middle = Interval.of_median(rates.values).value / 1e9
        table.add_row(rates.key, three_digits(middle), f"{low:.1f} - {high:.1f}", str(len(rates.values)))
    return table


def _formula(law: Fit) -> str:
    """Milliseconds, each with its bounds."""
    told = [_bounded(law.constant)]
    for name, each in law.coefficients.items():
        unit, scale = _UNITS.get(name, (name, 1.0))
        told.append(f"{_bounded(each.scaled(scale))} per {unit}")
    return " + ".join(told)


def _bounded(seconds: Interval) -> str:
    return f"{_ms(seconds.value)} ({_ms(seconds.low)} to {_ms(seconds.high)})"


def _ms(seconds: float) -> str:
    return three_digits(seconds * 1000)


def _median(samples: Iterable[Sample]) -> float:
    return Interval.of_median([sample.duration_s for sample in samples]).value
