"""Why a run's stages took what they took, on the terminal: a table of shares, then verdicts in sentences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from profiling.bottleneck import Attribution
from profiling.elasticity import Elasticity
from profiling.interval import Interval
from profiling.operations import operations
from profiling.patch_loop import LoopVerdict
from profiling.plausibility import Impossible
from profiling.readings import engine_of
from profiling.report.style import glyphs_for, plain
from profiling.report.wording import LABEL
from profiling.symptoms import Symptom
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.verdict import CONTENTION, FIXED, LOOP_NAMES, RESIDUAL

_LABEL_CELLS, _CELLS = 20, 9
_LEAST_S = 0.0005  # a stage that took less, over the whole run, is left out
_HEADINGS = ("ms", "compute", "memory", "steps", "fixed", "beside", "left")
MAX_WIDTH = 110


@dataclass(frozen=True)
class Unjudged:
    """A stage of a turn without shares, and `why` in a few words."""

    stage: Stage
    seconds: float
    why: str


def unjudged(turn: Turn, refused: Mapping[int, Impossible]) -> list[Unjudged]:
    """The stages of the engines that did the impossible: `refused` by the index of their step."""
    if not refused:
        return []
    engines = {engine_of(one.reading.operation) for one in refused.values()}
    causes = {turn.steps[step].stage: one.cause_name for step, one in refused.items()}
    seconds: dict[Stage, float] = {}
    for one in operations(turn):
        if engine_of(one.name) in engines:
            seconds[one.stage] = seconds.get(one.stage, 0.0) + one.duration_ns / 1e9
    return [
        Unjudged(stage, took_s, f"impossible: {causes[stage]}" if stage in causes else "no verdict on this engine")
        for stage, took_s in seconds.items()
    ]


def print_shares(
    console: Console,
    found: Sequence[Attribution],
    turns_of: Callable[[str], int],
    title: str,
    without: Sequence[Unjudged] = (),
) -> None:
    """Milliseconds per turn of each stage, split, and the verdict's cause in a word; `turns_of` an operation are those
    that its shares are of."""
    none = glyphs_for(console).none
    rows = [(one.stages[0], _row(one, turns_of(one.operation), none)) for one in found if one.seconds >= _LEAST_S]
    rows += [(one.stage, _cells(one.stage, [_ms(one.seconds)], Text(one.why, "dim"))) for one in without]
    if not rows:
        return
    lines = [
        Text(f"  {title:<{_LABEL_CELLS}}" + "".join(f"{name:>{_CELLS}}" for name in _HEADINGS) + "  bound by", "dim")
    ]
    lines += [row for _, row in sorted(rows, key=lambda row: row[0].order)]
    console.print(Text("\n").join(lines), soft_wrap=True, highlight=False)


def print_impossible(console: Console, turn: Turn, refused: Mapping[int, Impossible]) -> None:
    """A sentence for each stage of a turn with impossible steps, about the fastest of them."""
    by_stage: dict[Stage, list[Impossible]] = {}
    for step, one in refused.items():
        by_stage.setdefault(turn.steps[step].stage, []).append(one)
    for stage, found in by_stage.items():
        steps = f", the fastest of {len(found)} such steps" if len(found) > 1 else ""
        _sentence(console, f"{LABEL[stage]}{steps}: ", min(found, key=lambda one: one.share).sentence)


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


def _row(one: Attribution, turns: int, none: str) -> Text:
    values = [one.compute, one.bandwidth, one.loop, one.fixed, one.contention, one.residual]
    cells = [_ms(one.seconds / turns), *(_ms_of(value, turns, none) for value in values)]
    return _cells(one.stages[0], cells, Text(one.verdict.cause, "bold" if one.verdict.conclusive else "dim"))


def _cells(stage: Stage, cells: Sequence[str], end: Text) -> Text:
    return Text(f"  {LABEL[stage]:<{_LABEL_CELLS}}" + "".join(f"{cell:>{_CELLS}}" for cell in cells) + "  ").append(end)


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
