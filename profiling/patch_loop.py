"""Whether a loop of serial steps decides: the voice's patches and the language model's tokens, each judged twice, for
the latency and for the whole reply.

For the latency it is the serial overhead above the floor in the first patch (in the tokens up to the first phrase's
end); for the whole reply, all patches (tokens) times what each costs above its floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiling import operations as op
from profiling.bottleneck import DRAWS, Attributor
from profiling.floors import Floats
from profiling.interval import Interval
from profiling.operation_table import Table
from profiling.trace.vocabulary import Stage
from profiling.verdict import experiment, loop_name

LATENCY, WHOLE_REPLY = "latency", "whole reply"

_NOUN = {op.PATCH: ("patch", "patches"), op.FIRST_PATCH: ("patch", "patches"), op.TOKEN: ("token", "tokens")}


@dataclass(frozen=True)
class LoopVerdict:
    """`scope` is LATENCY or WHOLE_REPLY; `count` patches or tokens took `seconds`, of which the roofline explains
    `floor`, and `above` is the serial steps' cost. `decides` says whether that is the larger one: True or False where
    the 95 % bounds lie apart, else None, and `experiment` what would settle it."""

    loop: str
    scope: str
    count: int
    seconds: float
    floor: Interval
    above: Interval
    decides: bool | None
    sentence: str
    experiment: str | None


def loop_verdicts(run: Attributor, turn: int | None = None) -> list[LoopVerdict]:
    """Of a run, or of the turn with this place in it. What lacks work, ceilings or calibration has no verdict."""
    found: list[LoopVerdict | None] = []
    for names in ((op.FIRST_PATCH, op.PATCH), (op.TOKEN,)):
        tables = [run.tables[name] for name in names if name in run.tables]
        tables = tables if turn is None else [table.of_turn(turn) for table in tables]
        found.append(_verdict(run, LATENCY, [_to_first_audio(table) for table in tables]))
        found.append(_verdict(run, WHOLE_REPLY, tables))
    return [verdict for verdict in found if verdict is not None]


def _to_first_audio(table: Table) -> Table:
    """Each turn's first patch; its tokens up to the end of the first phrase."""
    if table.name == op.TOKEN:
        return table.of_stages(Stage.LLM_THINKING, Stage.LLM_FIRST_PHRASE)
    if table.name == op.PATCH:
        return table.rows(slice(0, 0))
    _, first_rows = np.unique(table.turn, return_index=True)
    return table.rows(first_rows)


def _verdict(run: Attributor, scope: str, tables: Sequence[Table]) -> LoopVerdict | None:
    tables = [table for table in tables if len(table)]
    if not tables:
        return None
    floor, above, count, seconds = np.zeros(DRAWS), np.zeros(DRAWS), 0, 0.0
    for table in tables:
        shares = run.shares(table)
        if shares.compute is None or shares.bandwidth is None or shares.loop is None or shares.fixed is None:
            return None
        floor = floor + shares.compute + shares.bandwidth
        above = above + shares.loop + (shares.fixed if scope == WHOLE_REPLY else 0)
        count, seconds = count + len(table), seconds + float(shares.total[0])
    return _said(tables[0].name, scope, count, seconds, _interval(floor, count), _interval(above, count))


def _interval(draws: Floats, count: int) -> Interval:
    return Interval.of_draws(float(draws[0]), list(map(float, draws)), count)


def _said(operation: str, scope: str, count: int, seconds: float, floor: Interval, above: Interval) -> LoopVerdict:
    decides = True if above.low > floor.high else False if floor.low > above.high else None
    loop, (one, several) = loop_name(operation), _NOUN[operation]
    what = f"{count} {one if count == 1 else several} {'to the first sound' if scope == LATENCY else 'in all'}"
    share = 100 * above.value / seconds if seconds else 0.0
    says = {
        True: f"the {loop} decides",
        False: f"the {loop} does not decide, arithmetic and reading do",
        None: f"whether the {loop} decides is not certain",
    }[decides]
    sentence = f"{what}: {1000 * above.value:.1f} of {1000 * seconds:.1f} ms above the floor ({share:.0f} %): {says}."
    settles = experiment(operation, loop, "bandwidth") if decides is None else None
    return LoopVerdict(loop, scope, count, seconds, floor, above, decides, sentence, settles)
