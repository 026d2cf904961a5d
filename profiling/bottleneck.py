"""Why a stage took as long as it did: its time split into arithmetic, reading, serial steps, a fixed cost, contention
and what is left.

T = a + sum of max(F / peak, Q / bandwidth) + N * overhead + contention + r, for each operation, summed. The ceilings
are those of the run; a and the overhead come from operations measured alone (`profiling.overhead`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiling.calibration import Calibration
from profiling.fit import Fit
from profiling.floors import Amounts, Floats, amounts, ceiling_draws
from profiling.impossibilities import NONE, Impossibilities
from profiling.interval import CONFIDENCE, Interval
from profiling.operation_table import Table, tables
from profiling.overhead import SPARE, Overhead, overhead
from profiling.split import Known, Shares, split
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.verdict import (
    BANDWIDTH,
    COMPUTE,
    CONTENTION,
    FIXED,
    NO_CEILING,
    RESIDUAL,
    Verdict,
    loop_name,
    verdict,
)
from profiling.work_book import OperationWork, WorkBook

DRAWS, BLOCKS = 401, 1000  # the first draw is the estimate; more operations than blocks are drawn in groups
DRAWS_OF_TURN, BLOCKS_OF_TURN = 101, 32


@dataclass(frozen=True)
class Attribution:
    """The time of operations of one name, `seconds` in all, split. Shares are seconds with 95 % bounds, or None where
    they cannot be known, and `unknown` says why, by the share's name; the residual is what the known ones leave, and
    may be negative. `overlap_s` is how long other engines worked beside it; `steps` are its serial steps; `untold`
    operations do not tell their units, and are in the residual."""

    operation: str
    stages: tuple[Stage, ...]
    count: int
    seconds: float
    overlap_s: float
    steps: float | None
    compute: Interval | None
    bandwidth: Interval | None
    loop: Interval | None
    fixed: Interval | None
    contention: Interval | None
    residual: Interval
    untold: int
    unknown: Mapping[str, str]
    verdict: Verdict

    @property
    def loop_name(self) -> str:
        return loop_name(self.operation)

    @property
    def shares(self) -> dict[str, Interval]:
        """The known ones by name; their values sum to `seconds`."""
        named = {
            COMPUTE: self.compute,
            BANDWIDTH: self.bandwidth,
            self.loop_name: self.loop,
            FIXED: self.fixed,
            CONTENTION: self.contention,
            RESIDUAL: self.residual,
        }
        return {name: share for name, share in named.items() if share is not None}


def attribute(
    turns: Sequence[Turn],
    work_book: WorkBook | None,
    ceilings: Mapping[str, Interval],
    calibration: Calibration | None,
    *,
    seed: int = 0,
) -> list[Attribution]:
    """Every stage of a run, in pipeline order. `ceilings` are the run's, by `calibration.ceiling_key`, in bytes or
    operations per second."""
    return Attributor(turns, work_book, ceilings, calibration, seed=seed).run()


class Attributor:
    """Splits the stages of a run, and of each of its turns, from one reading of its operations.

    `tables` are all operations by name, but for those of an engine in the turns where it did the `impossible`;
    `ceilings` the run's, `overheads` what was calibrated: both as draws.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        work_book: WorkBook | None,
        ceilings: Mapping[str, Interval],
        calibration: Calibration | None,
        *,
        impossible: Impossibilities = NONE,
        seed: int = 0,
    ):
        self.impossible, self._turns = impossible, len(turns)
        self.tables = {name: left for name, table in tables(turns).items() if len(left := impossible.left_of(table))}
        self.work: Mapping[str, OperationWork] = work_book.operations if work_book else {}
        self._seed = seed
        self._calibration = calibration
        random = np.random.default_rng(seed)
        self.ceilings = ceiling_draws(ceilings, DRAWS, random)
        rates = calibration.ceilings if calibration else ()
        measured_then = {rate.key: Interval.of_median(rate.values) for rate in rates if rate.values}
        then = self.ceilings | ceiling_draws(measured_then, DRAWS, random)
        self.overheads = {name: self._overhead(name, then, random) for name in self.tables}
        self._laws = {name: self._law(name) for name in self.tables}

    def run(self) -> list[Attribution]:
        """Every stage over all turns, in pipeline order."""
        return self._by_stage(list(self.tables.values()), DRAWS, BLOCKS)

    def turn(self, number: int) -> list[Attribution]:
        """Every stage of the turn that has this place among the turns as given, from 0."""
        of_turn = [table.of_turn(number) for table in self.tables.values()]
        return self._by_stage(of_turn, DRAWS_OF_TURN, BLOCKS_OF_TURN)

    def turns_of(self, operation: str) -> int:
        """In how many turns its engine did nothing impossible."""
        return self._turns - len(self.impossible.turns(operation))

    def of(self, operations: Table, draws: int = DRAWS, blocks: int = BLOCKS) -> Attribution | None:
        """Any rows of one of the tables; None where there are none."""
        if not len(operations):
            return None
        name, count = operations.name, len(operations)
        work = self.work_of(operations)
        no_floor = self._why_no_floor(name, work)
        shares = self._split(operations, None if no_floor else work, draws, blocks)
        unknown = self._unknown(name, shares, no_floor)
        named = _named(name, shares)
        intervals = _intervals(named, count)
        seconds = float(shares.total[0])
        return Attribution(
            operation=name,
            stages=tuple(operations.stages),
            count=count,
            seconds=seconds,
            overlap_s=float(operations.overlap_s.sum()),
            steps=float(work.steps.sum()) if work is not None and work.told.any() else None,
            compute=intervals.get(COMPUTE),
            bandwidth=intervals.get(BANDWIDTH),
            loop=intervals.get(loop_name(name)),
            fixed=intervals.get(FIXED),
            contention=intervals.get(CONTENTION),
            residual=intervals[RESIDUAL],
            untold=int((~work.told).sum()) if work is not None else 0,
            unknown=unknown,
            verdict=verdict(name, seconds, intervals, unknown, _lead(named)),
        )

    def work_of(self, operations: Table) -> Amounts | None:
        """None where it is not known."""
        law = self.work.get(operations.name)
        return amounts(law, operations.units, len(operations)) if law else None

    def shares(self, operations: Table, draws: int = DRAWS, blocks: int = BLOCKS) -> Shares:
        """Of one or more operations of one name, as draws: those of several names may be added up."""
        work = self.work_of(operations)
        no_floor = self._why_no_floor(operations.name, work)
        return self._split(operations, None if no_floor else work, draws, blocks)

    def _split(self, operations: Table, work: Amounts | None, draws: int, blocks: int) -> Shares:
        name = operations.name
        known = Known(work, self.ceilings, self.overheads[name], self._laws[name])
        return split(operations, known, draws, blocks, np.random.default_rng(self._seed))

    def _by_stage(self, found: Sequence[Table], draws: int, blocks: int) -> list[Attribution]:
        stages = [(stage, table, table.stages) for table in found for stage in table.stages]
        split_up = [
            self.of(table if len(all_of) == 1 else table.of_stages(stage), draws, blocks)
            for stage, table, all_of in sorted(stages, key=lambda item: item[0].order)
        ]
        return [attribution for attribution in split_up if attribution is not None]

    def _overhead(self, name: str, then: Mapping[str, Floats], random: np.random.Generator) -> Overhead | None:
        if self._calibration is None or name not in self.work:
            return None
        return overhead(name, self._calibration.of(name), self.work[name], then, DRAWS, random)

    def _law(self, name: str) -> Fit | None:
        """Only where it is not known what the time is made of, and with measurements to spare."""
        if self._calibration is None or self.overheads[name] is not None:
            return None
        found = self._calibration.law(name)
        return found if found and found.n >= len(found.names) + 1 + SPARE else None

    def _why_no_floor(self, name: str, work: Amounts | None) -> str | None:
        """A sentence; None when there is a floor."""
        if work is None:
            return f"The work of {name} is not known."
        if missing := sorted(work.ceilings - set(self.ceilings)):
            return f"{NO_CEILING}: {'; '.join(missing)}."
        return None if work.told.any() else f"What each {name} had to do is not told."

    def _unknown(self, name: str, shares: Shares, no_floor: str | None) -> dict[str, str]:
        why: dict[str, str] = {}
        if no_floor:
            why |= dict.fromkeys((COMPUTE, BANDWIDTH), no_floor)
        calibrated = self._calibration is not None and bool(self._calibration.of(name))
        too_few = f"{name} was measured alone too few times." if calibrated else f"{name} was not calibrated."
        if shares.loop is None:
            why |= dict.fromkeys((loop_name(name), FIXED), no_floor if no_floor and calibrated else too_few)
        if shares.contention is None:
            why[CONTENTION] = too_few
        return why


def _named(operation: str, shares: Shares) -> dict[str, Floats]:
    """The known shares' draws."""
    named = {
        COMPUTE: shares.compute,
        BANDWIDTH: shares.bandwidth,
        loop_name(operation): shares.loop,
        FIXED: shares.fixed,
        CONTENTION: shares.contention,
        RESIDUAL: shares.residual,
    }
    return {share: draws for share, draws in named.items() if draws is not None}


def _intervals(shares: Mapping[str, Floats], count: int) -> dict[str, Interval]:
    ordered = np.sort(np.stack(list(shares.values())), axis=1)
    outside = int((1 - CONFIDENCE) / 2 * (ordered.shape[1] - 1))
    lows, highs = ordered[:, outside].tolist(), ordered[:, -1 - outside].tolist()
    return {
        share: Interval(value=float(d[0]), low=min(float(d[0]), low), high=max(float(d[0]), high), n=count)
        for (share, d), low, high in zip(shares.items(), lows, highs, strict=True)
    }


def _lead(shares: Mapping[str, Floats]) -> float:
    """In which part of the draws the largest share is the largest."""
    sizes = np.abs(np.stack(list(shares.values())))
    return float((sizes.argmax(axis=0) == sizes[:, 0].argmax()).mean())
