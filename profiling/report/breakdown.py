"""One line on where a turn's wait went, and one on what changed since the turn before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiling.critical_path import CriticalPath, critical_path
from profiling.report.style import shares
from profiling.report.wording import LABEL, how_it_ended, why_no_latency
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import turn_facts

MS_NS = 1_000_000
MOST_PARTS = 6  # named in a line; the others are summed
SMALL_CHANGE_MS = 2  # a part that changed by less is not named


@dataclass(frozen=True)
class Change:
    """A stage on the critical path of a turn: `ns` of it, and `change_ns` more than in the turn before."""

    stage: Stage
    ns: int
    change_ns: int


def breakdown_line(turn: Turn) -> str:
    """The latency and its parts in pipeline order, in whole milliseconds that sum to it; how much of the reply was
    heard, where that was not all of it."""
    path = critical_path(turn)
    if path is None:
        return f"No wait to explain: {why_no_latency(turn)}."
    return f"You waited {_total_ms(path):,} ms: {', '.join(_parts(path)) or 'nothing took a millisecond'}{_end(turn)}."


def changes(before: Turn, turn: Turn) -> list[Change] | None:
    """By stage, in pipeline order, as exact differences: they sum to that of the two latencies. None where one of the
    turns has no latency."""
    one, two = critical_path(before), critical_path(turn)
    if one is None or two is None:
        return None
    stages = [stage for stage in Stage if stage in one.totals or stage in two.totals]
    return [Change(s, two.totals.get(s, 0), two.totals.get(s, 0) - one.totals.get(s, 0)) for s in stages]


def change_line(what: str, before: Turn, turn: Turn) -> str:
    """`what` was changed ("thinking off -> 32") between the two turns: how much longer the wait was, and the stages
    that made most of the difference."""
    found = changes(before, turn)
    if found is None:
        lacking = before if critical_path(before) is None else turn
        which = "the turn before" if lacking is before else "this turn"
        return f"{what}: its effect cannot be told, {which} has no wait ({why_no_latency(lacking)})."
    total_ms = round(sum(change.change_ns for change in found) / MS_NS)
    by_size = sorted(found, key=lambda change: -abs(change.change_ns))
    named = [c for c in by_size if abs(c.change_ns) >= SMALL_CHANGE_MS * MS_NS][: MOST_PARTS // 2]
    parts = ", ".join(f"{LABEL[change.stage]} {round(change.change_ns / MS_NS):+,}" for change in named)
    return f"{what}: {total_ms:+,} ms{f', of it {parts}' if parts else ''}."


def setting_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs between two sets of choices, by name: "thinking off -> 32, chunk 320 -> 640"; empty where nothing
    does."""
    return ", ".join(
        f"{name} {before.get(name, '?')} -> {value}" for name, value in now.items() if value != before.get(name)
    )


def _total_ms(path: CriticalPath) -> int:
    return round(path.total_ns / MS_NS)


def _parts(path: CriticalPath) -> Sequence[str]:
    """The largest ones by name, the rest as one."""
    stages = list(path.totals)
    largest = set(sorted(stages, key=lambda stage: -path.totals[stage])[:MOST_PARTS])
    named = [stage for stage in stages if stage in largest]
    spent = [*(path.totals[stage] for stage in named), sum(path.totals[s] for s in stages if s not in largest)]
    names = [*(LABEL[stage] for stage in named), "the rest"]
    return [f"{name} {whole:,}" for name, whole in zip(names, shares(spent, MS_NS), strict=True) if whole]


def _end(turn: Turn) -> str:
    facts = turn_facts(turn)
    heard, words = facts.heard_words, facts.reply_words
    if turn.end_reason is EndReason.COMPLETED or turn.end_reason is None:
        return ""
    if heard is None or words is None:
        return f"; {how_it_ended(turn)}"
    return f"; {how_it_ended(turn)} after {heard:.0f} of {words:.0f} words"
