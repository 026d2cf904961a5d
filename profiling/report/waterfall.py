"""A turn as bars on one axis: from a little before S, which is 0 ms, to a little after A."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from profiling.critical_path import CriticalPath, critical_path, hidden
from profiling.report.style import TENTH_MS_NS, Glyphs, colour
from profiling.report.wording import LABEL
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import KIND_OF_STAGE, Kind, Stage

LABEL_CELLS, HIDDEN_CELLS = 22, 11
BEFORE, AFTER = 0.15, 0.06  # the axis' share before S, and its extent beyond A
TICKS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000, 600_000)
TICK_CELLS = 7
EMPTY, HIDDEN, WAIT, WORK = range(4)  # what a half-cell of a bar shows; the larger wins

Piece = tuple[int, int, int]  # start_ns, end_ns, what it shows


@dataclass(frozen=True)
class _Axis:
    """`cells` character cells, the first `zero` of them before S."""

    zero_ns: int
    ns_per_cell: float
    zero: int
    cells: int

    def position(self, time_ns: int) -> float:
        return self.zero + (time_ns - self.zero_ns) / self.ns_per_cell


def waterfall(turn: Turn, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """The lines of the waterfall, at most `width` cells wide: ticks, the user's speech, one row per stage, the legend.

    None for a turn without S or without a step. A turn without a latency shows its steps as they were, none as hidden.
    """
    path = critical_path(turn)
    axis = _axis(turn, path, width - LABEL_CELLS - HIDDEN_CELLS)
    if axis is None or turn.speech_end_ns is None or not turn.steps:
        return
    marks = {axis.zero} | ({int(axis.position(turn.first_audio_ns))} if turn.first_audio_ns and path else set[int]())
    yield from _ruler(axis, glyphs, "hidden ms" if path else "")
    speech = [(turn.speech_start_ns, turn.speech_end_ns, WORK)]
    yield _row("you speak", _bar(speech, axis, glyphs, "white", marks), 0)
    hidden_by_stage = hidden(turn, before_ns=turn.first_audio_ns) if path else {}
    for stage in Stage:
        pieces = list(_pieces(turn, path, stage))
        visible = [piece for piece in pieces if axis.position(piece[0]) < axis.cells and piece[1] > piece[0]]
        if visible:
            bar = _bar(visible, axis, glyphs, colour(stage, KIND_OF_STAGE.get(stage)), marks)
            yield _row(LABEL[stage], bar, hidden_by_stage.get(stage, 0))
    yield _legend(glyphs, path is not None)


def _legend(glyphs: Glyphs, has_path: bool) -> Text:
    parts = [f"{glyphs.halves[2] * 2} work", f"{glyphs.wait * 2} wait"]
    if has_path:
        parts += [f"{glyphs.hidden * 2} hidden, delayed nothing", f"{glyphs.grid} last word, first sound"]
    else:
        parts.append(f"{glyphs.grid} last word")
    return Text("  " + "   ".join(parts), style="dim")


def _axis(turn: Turn, path: CriticalPath | None, cells: int) -> _Axis | None:
    if turn.speech_end_ns is None:
        return None
    if path is not None:
        length_ns = path.total_ns * (1 + AFTER)
    else:
        length_ns = max([step.end_ns for step in turn.steps], default=turn.speech_end_ns) - turn.speech_end_ns
    zero = int(cells * BEFORE)
    return _Axis(turn.speech_end_ns, max(length_ns, 1e6) / (cells - zero), zero, cells)


def _pieces(turn: Turn, path: CriticalPath | None, stage: Stage) -> Iterator[Piece]:
    """What there is of a stage: all of its steps as hidden, and over them its segments of the path."""
    for step in turn.steps:
        if step.stage is stage:
            yield step.start_ns, step.end_ns, HIDDEN if path else _shown(step.kind)
    for segment in path.segments if path else ():
        if segment.stage is stage:
            yield segment.start_ns, segment.end_ns, _shown(segment.kind)


def _shown(kind: Kind | None) -> int:
    return WAIT if kind is Kind.WAIT else WORK


def _bar(pieces: Iterable[Piece], axis: _Axis, glyphs: Glyphs, style: str, marks: set[int]) -> Text:
    halves, began_earlier = [EMPTY] * (2 * axis.cells), False
    for start_ns, end_ns, shows in pieces:
        first, last = round(2 * axis.position(start_ns)), round(2 * axis.position(end_ns))
        began_earlier = began_earlier or first < 0
        for half in range(max(0, first), min(max(first + 1, last), len(halves))):
            halves[half] = max(halves[half], shows)
    cells: list[tuple[str, str]] = []
    for cell in range(axis.cells):
        left, right = halves[2 * cell : 2 * cell + 2]
        if cell == 0 and began_earlier:
            cells.append((glyphs.earlier, style))
        elif max(left, right) == EMPTY:
            cells.append((glyphs.grid if cell in marks else " ", "dim"))
        elif max(left, right) == HIDDEN:
            cells.append((glyphs.hidden, "grey50"))
        elif max(left, right) == WAIT:
            cells.append((glyphs.wait, style))
        else:
            cells.append((glyphs.halves[2 if left == right else 0 if left > right else 1], style))
    runs = groupby(cells, key=lambda cell: cell[1])
    return Text.assemble(*(("".join(glyph for glyph, _ in run), style) for style, run in runs))


def _row(label: str, bar: Text, hidden_ns: int) -> Text:
    row = Text(f"  {label:<{LABEL_CELLS - 2}}").append_text(bar)
    if hidden_ns >= TENTH_MS_NS / 2:
        row.append(f"{hidden_ns / 1e6:>{HIDDEN_CELLS},.1f}", "dim")
    return row


def _ruler(axis: _Axis, glyphs: Glyphs, right: str) -> Iterator[Text]:
    cells_per_ms = 1e6 / axis.ns_per_cell
    tick_ms = next((t for t in TICKS_MS if t * cells_per_ms >= TICK_CELLS), int(TICK_CELLS / cells_per_ms) + 1)
    labels, line = [" "] * axis.cells, [glyphs.rule] * axis.cells
    time_ms = -int(axis.zero / cells_per_ms / tick_ms) * tick_ms
    while (cell := int(axis.zero + time_ms * cells_per_ms)) < axis.cells:
        text = f"{time_ms:,} ms" if time_ms == 0 else f"{time_ms:,}"
        if cell + len(text) <= axis.cells:
            labels[cell : cell + len(text)] = text
        line[cell] = glyphs.tick
        time_ms += tick_ms
    yield Text(" " * LABEL_CELLS + "".join(labels) + f"{right:>{HIDDEN_CELLS}}", style="dim")
    yield Text(" " * LABEL_CELLS + "".join(line), style="dim")
