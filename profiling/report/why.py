"""Why a run's stages took what they took, on the terminal: a table of shares, then verdicts in sentences."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from profiling.bottleneck import Attribution
from profiling.elasticity import Elasticity
from profiling.interval import Interval
from profiling.patch_loop import LoopVerdict
from profiling.report.style import glyphs_for, plain
from profiling.report.wording import LABEL
from profiling.symptoms import Symptom
from profiling.verdict import CONTENTION, FIXED, LOOP_NAMES, RESIDUAL

_LABEL_CELLS, _CELLS = 20, 9
_LEAST_S = 0.0005  # a stage that took less, over the whole run, is left out
_HEADINGS = ("ms", "compute", "memory", "steps", "fixed", "beside", "left")
MAX_WIDTH = 110


def print_shares(console: Console, found: Sequence[Attribution], turns: int, title: str) -> None:
    """Milliseconds per turn of each stage, split, and the verdict's cause in a word."""
    glyphs = glyphs_for(console)
    shown = [one for one in found if one.seconds >= _LEAST_S]
    if not shown:
        return
    lines = [
        Text(f"  {title:<{_LABEL_CELLS}}" + "".join(f"{name:>{_CELLS}}" for name in _HEADINGS) + "  bound by", "dim")
    ]
    for one in shown:
        values = [one.compute, one.bandwidth, one.loop, one.fixed, one.contention, one.residual]
        cells = [_ms(one.seconds / turns), *(_ms_of(value, turns, glyphs.none) for value in values)]
        cause = Text(one.verdict.cause, "bold" if one.verdict.conclusive else "dim")
        row = Text(f"  {_label(one):<{_LABEL_CELLS}}" + "".join(f"{cell:>{_CELLS}}" for cell in cells) + "  ")
        lines.append(row.append(cause))
    console.print(Text("\n").join(lines), soft_wrap=True, highlight=False)


def print_verdicts(console: Console, found: Sequence[Attribution], loops: Sequence[LoopVerdict]) -> None:
    """A sentence for each stage that took time, with what would settle what is open."""
    for one in found:
        if one.seconds >= _LEAST_S:
            told = one.verdict.sentence
            if one.verdict.experiment:
                told += f" To settle it: {one.verdict.experiment}."
            _sentence(console, f"{LABEL[one.stages[0]]}: ", told)
    for loop in loops:
        told = loop.sentence + (f" To settle it: {loop.experiment}." if loop.experiment else "")
        _sentence(console, f"{loop.loop}, {loop.scope}: ", told)


def print_elasticities(console: Console, found: Sequence[Elasticity]) -> None:
    """What each small change would give, the largest first."""
    known = [one for one in found if one.saved_ms and one.percent and one.saved_ms.high > 0]
    lines = [Text(f"  {'what would change it':<36}{'ms sooner':>12}{'between':>20}{'of the latency':>17}", "dim")]
    for one in sorted(known, key=lambda e: -(e.saved_ms.value if e.saved_ms else 0)):
        assert one.saved_ms is not None and one.percent is not None
        between = f"{one.saved_ms.low:.2f} - {one.saved_ms.high:.2f}"
        lines.append(Text(f"  {one.change:<36}{one.saved_ms.value:>12.2f}{between:>20}{one.percent.value:>15.2f} %"))
    if len(lines) > 1:
        console.print(Text("\n").join(lines), soft_wrap=True, highlight=False)
    unmoved = sorted({name for one in found for name in one.without})
    if unmoved:
        _sentence(
            console,
            "",
            f"The work of {', '.join(unmoved)} is not known: more of the machine is taken to give nothing there.",
        )


def print_symptoms(console: Console, found: Iterable[Symptom]) -> None:
    for one in found:
        _sentence(console, f"{one.name}: ", f"{one.symptom} {one.cause} {one.advice}")


def _label(one: Attribution) -> str:
    return LABEL[one.stages[0]]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


def _ms_of(share: Interval | None, turns: int, none: str) -> str:
    return none if share is None else _ms(share.value / turns)


def _sentence(console: Console, head: str, told: str) -> None:
    width = max(60, min(console.width, MAX_WIDTH))
    text = Text.assemble((head, "dim"), plain(told, console))
    for line in text.wrap(console, width - 2):
        line.rstrip()
        console.print(Text("  ").append_text(line), soft_wrap=True, highlight=False)


def legend() -> Iterator[str]:
    """What the columns of the shares mean."""
    yield "compute, memory: the least that arithmetic and reading take at this machine's measured ceilings"
    yield f"steps: serial steps above that ({' or '.join(LOOP_NAMES)}); {FIXED}: paid once an operation"
    yield f"beside ({CONTENTION}): slowed by other engines; left ({RESIDUAL}): what the parts do not account for"
