"""What cannot be in a run's turns: found once, and left out of all that is summed up over them.

A turn with an impossible step gives no latency to a median and no verdict on the engine whose step it is; its other
engines count as ever.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profiling import operations as op
from profiling.interval import Interval
from profiling.operation_table import Table
from profiling.plausibility import Cause, Impossible, Surroundings, impossible_steps
from profiling.readings import Reading, engine_of, readings
from profiling.trace.garbage import no_search_for_cycles
from profiling.trace.timeline import Turn
from profiling.work_book import WorkBook

_NAMES = {
    op.VAD: "voice detector",
    op.SMART_TURN: "turn detector",
    op.ASR_STEP: "recognition",
    op.PREFILL: "prefill",
    op.TOKEN: "tokens",
    op.SETUP: "voice set-up",
    op.FIRST_PATCH: "first patch",
    op.PATCH: "later patches",
}


@dataclass(frozen=True)
class Impossibilities:
    """`by_turn`: by the place of the turn among the run's, from 0, and the index of the step in it. Turns without an
    impossible step are not in it."""

    by_turn: Mapping[int, Mapping[int, Impossible]] = field(default_factory=dict[int, Mapping[int, Impossible]])

    def of(self, turn: int) -> Mapping[int, Impossible]:
        """Those of one turn, by step."""
        return self.by_turn.get(turn, {})

    def engines(self, turn: int) -> set[str]:
        """Of one turn, those that give no verdict: the first part of their operations' names."""
        return {engine_of(one.reading.operation) for one in self.of(turn).values()}

    def turns(self, operation: str) -> list[int]:
        """The places of the turns in which the operation's engine gives no verdict."""
        return [turn for turn in self.by_turn if engine_of(operation) in self.engines(turn)]

    def left_of(self, table: Table) -> Table:
        """Without the turns in which the engine gives no verdict; what overlapped with it there still counts."""
        without = self.turns(table.name)
        return table.rows(np.flatnonzero(~np.isin(table.turn, without))) if without else table

    @property
    def reasons(self) -> str:
        """Which operations, in how many turns, and the likeliest cause: the end of a sentence, without its dot."""
        return "; ".join(self._reasons())

    def _reasons(self) -> Iterator[str]:
        found: dict[tuple[str, Cause], dict[int, Impossible]] = {}
        for turn, steps in self.by_turn.items():
            for one in steps.values():
                of_kind = found.setdefault((one.reading.operation, one.cause), {})
                if turn not in of_kind or one.share < of_kind[turn].share:
                    of_kind[turn] = one
        for (operation, _), of_kind in found.items():
            count, worst = len(of_kind), min(of_kind.values(), key=lambda one: one.share)
            turns, which = ("1 turn", "") if count == 1 else (f"{count} turns", " of the worst")
            yield f"{_NAMES[operation]} in {turns} (likeliest cause{which}: {worst.likeliest})"


NONE = Impossibilities()


def impossibilities(
    turns: Sequence[Turn], book: WorkBook, ceilings: Mapping[str, Interval], surroundings: Surroundings | None = None
) -> Impossibilities:
    """Of all turns of a run. `ceilings` by name, in bytes or operations per second."""
    with no_search_for_cycles():
        return impossible_among((readings(turn, book, ceilings) for turn in turns), ceilings, surroundings)


def impossible_among(
    read: Iterable[Sequence[Reading]], ceilings: Mapping[str, Interval], surroundings: Surroundings | None = None
) -> Impossibilities:
    """Of all turns of a run, from their readings."""
    found = (impossible_steps(of_turn, ceilings, surroundings) for of_turn in read)
    return Impossibilities({place: steps for place, steps in enumerate(found) if steps})
