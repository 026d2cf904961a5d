"""The report on the terminal: per turn a waterfall, the critical path as a table and a few facts; per run a summary."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from profiling.critical_path import OURS, CriticalPath, critical_path
from profiling.impossibilities import NONE, Impossibilities
from profiling.report.facts import fact_lines
from profiling.report.style import TENTH_MS_NS, Glyphs, colour, glyphs_for, ms, plain, shares
from profiling.report.waterfall import waterfall
from profiling.report.wording import LABEL, how_it_ended, kind_word, largest_part, left_out, why_no_latency
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import KIND_OF_STAGE, Kind, Stage
from profiling.turn import counts

MIN_WIDTH, MAX_WIDTH = 60, 200
LABEL_CELLS, WHO_CELLS, FACT_CELLS = 20, 7, 10
SUMMARY_PARTS: dict[str, tuple[str, ...]] = {
    "endpoint": ("endpoint.",),
    "ASR": ("asr.",),
    "LLM": ("llm.",),
    "voice": ("tts.",),
    "playout": ("playout.",),
    "ours": OURS,
}
SUMMARY_CELLS = (9, 10, 8, 8, 8, 9, 7)


def print_turn(
    console: Console, turn: Turn, number: int, transcript: str | None = None, reply: str | None = None
) -> None:
    """Print all that is known of a turn. `transcript` and `reply` are shown when given."""
    glyphs, width = glyphs_for(console), max(MIN_WIDTH, min(console.width, MAX_WIDTH))
    path = critical_path(turn)
    blocks: list[Iterable[Text]] = [
        [_title(turn, number, path, width, glyphs), *_speech(console, transcript, reply, width)],
        waterfall(turn, width, glyphs),
    ]
    if path is not None:
        blocks.append(_path_table(path, width, glyphs))
        sentence = largest_part(turn, path)
        blocks.append(_wrapped(console, "", 0, plain(sentence or "", console), width, "bold"))
    facts = fact_lines(turn, glyphs.none)
    blocks.append(
        line
        for label, text in facts.items()
        for line in _wrapped(console, label, FACT_CELLS, plain(text, console), width, "")
    )
    _print(console, [line for block in map(list, blocks) if block for line in [*block, Text()]])


def print_summary(console: Console, turns: Sequence[Turn], impossible: Impossibilities = NONE) -> None:
    """Print one row per turn, the medians over the turns whose latency counts and that have no impossible step, and how
    many were left out and why."""
    glyphs, width = glyphs_for(console), max(MIN_WIDTH, min(console.width, MAX_WIDTH))
    kept = [turn for place, turn in enumerate(turns) if counts(turn) and not impossible.of(place)]
    counted = [path for turn in kept if (path := critical_path(turn))]
    lines = [
        _rule("Summary", "milliseconds", width, glyphs),
        Text(_summary_row("turn", ["latency", *SUMMARY_PARTS], "ended"), "dim"),
    ]
    for number, turn in enumerate(turns, start=1):
        cells = _summary_cells(critical_path(turn), glyphs)
        possible = not impossible.of(number - 1)
        ending = how_it_ended(turn) + ("" if possible else ", impossible")
        lines.append(Text(_summary_row(str(number), cells, ending), "" if counts(turn) and possible else "dim"))
    if len(counted) > 1:
        columns = [[path.total_ns for path in counted]]
        columns += [[_part_ns(path, name) for path in counted] for name in SUMMARY_PARTS]
        medians = [ms(round(statistics.median(column) / TENTH_MS_NS)) for column in columns]
        lines.append(Text("  " + glyphs.rule * (6 + sum(SUMMARY_CELLS)), "dim"))
        lines.append(Text(_summary_row("median", medians, f"n = {len(counted)}"), "bold"))
    for note in _summary_notes(turns, len(counted), impossible):
        lines += _wrapped(console, "", 0, note, width, "dim")
    _print(console, [*lines, Text()])


def _print(console: Console, lines: Sequence[Text]) -> None:
    for line in lines:
        line.rstrip()
    console.print(Text("\n").join(lines), soft_wrap=True)


def _title(turn: Turn, number: int, path: CriticalPath | None, width: int, glyphs: Glyphs) -> Text:
    if path is None:
        return _rule(f"Turn {number}", f"no latency: {why_no_latency(turn)}", width, glyphs)
    total = ms(shares([path.total_ns], TENTH_MS_NS)[0])
    note = " (estimated)" if turn.speech_end_estimated else ""
    return _rule(f"Turn {number}", f"{total} ms from your last word{note} to the first sound", width, glyphs)


def _rule(left: str, right: str, width: int, glyphs: Glyphs) -> Text:
    title = Text(f"{glyphs.rule * 2} ", "dim").append(left, "bold not dim")
    title.append(f" {glyphs.dot} ").append(right, "not dim")
    return title.append(" " + glyphs.rule * max(2, width - title.cell_len - 1))


def _speech(console: Console, transcript: str | None, reply: str | None, width: int) -> Iterator[Text]:
    for who, text in (("you", transcript), ("agent", reply)):
        if text is not None:
            yield from _wrapped(console, who, WHO_CELLS, plain(text, console), width, "italic")


def _path_table(path: CriticalPath, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """One row per stage in pipeline order, our own three always; the shown figures sum to the shown total."""
    totals = path.totals
    stages = [stage for stage in Stage if stage in totals or stage in OURS]
    spent = [totals.get(stage, 0) for stage in stages]
    tenths = shares(spent, TENTH_MS_NS)
    permille = shares(spent, path.total_ns / 1000) if path.total_ns else [0] * len(spent)
    bar_cells = min(60, width - LABEL_CELLS - 32)
    yield Text(f"  {'where it went':<{LABEL_CELLS}}{'':<6}{'ms':>10}{'share':>10}", "dim")
    for stage, ns, tenth, share in zip(stages, spent, tenths, permille, strict=True):
        kind = KIND_OF_STAGE.get(stage)
        row = Text(f"  {LABEL[stage]:<{LABEL_CELLS}}", "" if ns else "dim")
        row.append(f"{kind_word(stage, kind):<6}", "dim").append(f"{ms(tenth):>10}{share / 10:>8.1f} %  ")
        yield row.append(_share_bar(ns / max(spent) if ns else 0.0, bar_cells, kind, glyphs), colour(stage, kind))
    yield Text(f"  {'':<{LABEL_CELLS + 6}}{glyphs.rule * 20}", "dim")
    total = sum(permille) / 10
    yield Text(f"  {'turn latency':<{LABEL_CELLS}}{'':<6}{ms(sum(tenths)):>10}{total:>8.1f} %", "bold")


def _share_bar(share: float, cells: int, kind: Kind | None, glyphs: Glyphs) -> str:
    halves = round(2 * cells * share)
    if kind is Kind.WAIT:
        return glyphs.wait * ((halves + 1) // 2)
    return glyphs.halves[2] * (halves // 2) + glyphs.halves[0] * (halves % 2)


def _summary_row(turn: str, cells: Sequence[str], ending: str) -> str:
    columns = zip(cells, SUMMARY_CELLS, strict=True)
    return f"  {turn:<6}" + "".join(f"{cell:>{wide}}" for cell, wide in columns) + f"  {ending}"


def _summary_cells(path: CriticalPath | None, glyphs: Glyphs) -> list[str]:
    if path is None:
        return [glyphs.none] * (1 + len(SUMMARY_PARTS))
    tenths = shares([_part_ns(path, name) for name in SUMMARY_PARTS], TENTH_MS_NS)
    return [ms(sum(tenths)), *(ms(part) for part in tenths)]


def _part_ns(path: CriticalPath, name: str) -> int:
    return sum(ns for stage, ns in path.totals.items() if stage.startswith(SUMMARY_PARTS[name]))


def _summary_notes(turns: Sequence[Turn], counted: int, impossible: Impossibilities) -> Iterator[str]:
    missing = Counter(left_out(turn) for turn in turns if not counts(turn))
    if missing:
        are = "is" if missing.total() == 1 else "are"
        reasons = ", ".join(
            reason.format(number=number, turns=f"{number} {'turn' if number == 1 else 'turns'}")
            for reason, number in missing.items()
        )
        yield f"{missing.total()} of {len(turns)} turns {are} left out of the medians: {reasons}."
    if number := len(impossible.by_turn):
        are = "has an impossible step and is" if number == 1 else "have an impossible step and are"
        yield (
            f"{number} of {len(turns)} turns {are} left out of the medians, and of all that is said of the engine: "
            f"{impossible.reasons}."
        )
    if counted > 1:
        yield "Each median is its column's own, so the parts need not sum to the latency."


def _wrapped(console: Console, label: str, label_cells: int, text: str, width: int, style: str) -> Iterator[Text]:
    """`text` in lines beside a label."""
    for number, line in enumerate(Text(text, style).wrap(console, width - label_cells - 2)):
        yield Text.assemble("  ", (f"{label if number == 0 else '':<{label_cells}}", "dim"), line)
