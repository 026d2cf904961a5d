"""What the terminal report is drawn with: glyphs, colours, and numbers that add up as they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from profiling.trace.vocabulary import Kind, Stage

TENTH_MS_NS = 100_000


@dataclass(frozen=True)
class Glyphs:
    """`halves` are the left half, the right half and the whole of a cell of work."""

    halves: tuple[str, str, str]
    wait: str
    hidden: str
    grid: str
    earlier: str
    rule: str
    tick: str
    none: str
    dot: str


UNICODE = Glyphs(("▌", "▐", "█"), "▒", "░", "┊", "◂", "─", "┴", "—", "·")
ASCII = Glyphs(("#", "#", "#"), "=", ".", ":", "<", "-", "+", "-", "|")

COLOUR_OF_GROUP = {
    "endpoint": "bright_cyan",
    "asr": "bright_blue",
    "llm": "bright_magenta",
    "tts": "bright_green",
    "playout": "bright_yellow",
}
COLOUR_OF_WAIT, COLOUR_OF_OURS = "grey62", "bright_red"


def glyphs_for(console: Console) -> Glyphs:
    """ASCII where the terminal's encoding lacks the block characters."""
    return UNICODE if _encodable("".join(UNICODE.halves) + "▒░┊◂─┴—·", console.encoding) else ASCII


def plain(text: str, console: Console) -> str:
    """`text` on one line, without control characters, in what the terminal can show."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown.encode(console.encoding, "replace").decode(console.encoding)


def colour(stage: Stage, kind: Kind | None) -> str:
    if kind is Kind.WAIT:
        return COLOUR_OF_WAIT
    return COLOUR_OF_GROUP.get(stage.partition(".")[0], COLOUR_OF_OURS)


def shares(parts: Sequence[int], unit: float) -> list[int]:
    """Round each part to whole units so that they sum to the rounded total (largest remainder; zero stays zero)."""
    exact = [part / unit for part in parts]
    whole = [int(value) for value in exact]
    missing = round(sum(parts) / unit) - sum(whole)
    for index in sorted(range(len(parts)), key=lambda i: whole[i] - exact[i])[:missing]:
        whole[index] += 1
    return whole


def ms(tenths: int) -> str:
    """Tenths of a millisecond as milliseconds: 4040 is "404.0"."""
    return f"{tenths / 10:,.1f}"


def _encodable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
