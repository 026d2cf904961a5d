"""What operations cost above their floor with nothing beside them: a constant, and so much for each serial step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from profiling.bootstrap import drawn
from profiling.calibration import Sample
from profiling.floors import amounts
from profiling.operations import IN_LOOPS
from profiling.spread import HUBER, SPREAD_OF_MAD
from profiling.work_book import OperationWork

Floats = NDArray[np.float64]

_ROUNDS, _ROUNDS_OF_DRAWS = 12, 2  # the draws begin where the estimate has ended
_EXACT = 1e-9  # relative errors below this are none
SPARE = 2  # measurements beyond the unknowns
_LEVER = 0.5  # floors that vary by this share of their mean show how cost above them grows with them


@dataclass(frozen=True)
class Overhead:
    """`fixed_s` + `per_step_s` * steps + `slowness` * floor; each (draws), the estimate first. `slowness` is how far
    the machine stays below its ceilings at any size; it is 0 where the calibration's sizes do not tell."""

    fixed_s: Floats
    per_step_s: Floats
    slowness: Floats
    n: int

    def first(self, draws: int) -> "Overhead":
        return Overhead(self.fixed_s[:draws], self.per_step_s[:draws], self.slowness[:draws], self.n)

    def alone_s(self, floor_s: Floats, steps: Floats, count: Floats) -> Floats:
        """Seconds (draws, n) of blocks of `count` operations with so many steps: (n) each; floors are (draws, n)."""
        above = self.fixed_s[:, None] * count + self.per_step_s[:, None] * steps
        return floor_s * (1 + self.slowness[:, None]) + above


def overhead(
    operation: str,
    samples: Sequence[Sample],
    work: OperationWork,
    ceilings: Mapping[str, Floats],
    draws: int,
    random: np.random.Generator,
) -> Overhead | None:
    """Regresses duration - floor on the serial steps, relative errors weighing alike and outliers less (Huber 1964).

    `ceilings` are (draws) by name, those at the time of the calibration, the estimates first. Where the steps do not
    vary, an operation of a loop has all of it per step and any other all of it fixed; neither is below 0. None when a
    ceiling is missing, or when there are too few samples.
    """
    work_of = amounts(work, _units(samples), len(samples))
    chosen = np.flatnonzero(work_of.told)
    if not work_of.ceilings <= set(ceilings) or not len(chosen):
        return None
    durations = np.array([sample.duration_s for sample in samples])
    computing_s, reading_s = work_of.floors(ceilings, draws)
    floors = (computing_s + reading_s)[:, chosen]
    durations, steps = durations[chosen], work_of.steps[chosen]
    vary = bool(np.ptp(steps))
    columns = [np.ones(len(chosen)), *([steps] if vary else ())]
    slow = _has_lever(floors[0], columns)
    if slow:
        columns.append(floors[0])
    if len(chosen) < len(columns) + SPARE:
        return None
    solved = _solved(np.stack(columns, axis=1), durations - floors, durations, floors[0], random)
    constant, per_step = _not_below_zero(solved[:, 0], solved[:, 1] if vary else np.zeros(draws), float(steps.mean()))
    slowness = solved[:, -1] if slow else np.zeros(draws)
    if not vary and operation in IN_LOOPS and steps[0] > 0:
        constant, per_step = np.zeros(draws), constant / steps[0]
    return Overhead(constant, per_step, slowness, len(chosen))


def _units(samples: Sequence[Sample]) -> dict[str, Floats]:
    names = dict.fromkeys(name for sample in samples for name in sample.units)
    return {name: np.array([sample.units.get(name, np.nan) for sample in samples]) for name in names}


def _has_lever(floors: Floats, columns: Sequence[Floats]) -> bool:
    """Whether the floors vary beside the columns, enough to tell one from the other."""
    if len(floors) <= len(columns) + SPARE:
        return False
    matrix = np.stack(columns, axis=1)
    left = floors - matrix @ np.linalg.lstsq(matrix, floors, rcond=None)[0]
    return float(left.std()) > _LEVER * float(floors.mean())


def _solved(matrix: Floats, excess: Floats, durations: Floats, floors: Floats, random: np.random.Generator) -> Floats:
    """(draws, columns): the first row solves the measurements as they are, the others draw them anew. Errors count
    relative to the durations that the solution gives, so that long operations weigh no more than short ones."""
    count, unknowns = matrix.shape
    norm = np.abs(matrix).mean(axis=0)
    x = matrix / norm
    scale = rough = floors + max(float(np.median(excess[0])), 0.05 * float(durations.mean()))
    solved, spread = _least_squares(x, excess[:1], 1 / scale[None] ** 2), 1.0
    for _ in range(_ROUNDS):
        scale = np.maximum(floors + x @ solved[0], rough / 4)
        errors = (excess[0] - x @ solved[0]) / scale
        spread = max(SPREAD_OF_MAD * float(np.median(np.abs(errors))), _EXACT)
        solved = _least_squares(x, excess[:1], (_trust(errors, spread) / scale**2)[None])
    times = drawn(count, len(excess), random) / scale**2
    for _ in range(_ROUNDS_OF_DRAWS):
        solved = _least_squares(x, excess, times * _trust((excess - solved @ x.T) / scale, spread))
    return (solved[0] + (solved - solved[0]) * np.sqrt(count / (count - unknowns))) / norm


def _trust(errors: Floats, spread: float) -> Floats:
    """Huber's weights."""
    return 1 / np.maximum(np.abs(errors) / (spread * HUBER), 1)


def _least_squares(x: Floats, values: Floats, weights: Floats) -> Floats:
    """For all rows of values and weights (draws, n) at once; where draws leave an unknown open, the smallest one."""
    unknowns = x.shape[1]
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    left = (weights @ products).reshape(-1, unknowns, unknowns)
    ridge = 1e-9 * np.trace(left, axis1=1, axis2=2)[:, None, None] * np.eye(unknowns)
    return cast(Floats, np.linalg.solve(left + ridge, ((weights * values) @ x)[..., None])[..., 0])


def _not_below_zero(constant: Floats, per_step: Floats, steps: float) -> tuple[Floats, Floats]:
    """Where one of them came out below 0 it is 0, and the other has the cost of the mean of the steps."""
    middle = np.maximum(constant + per_step * steps, 0)
    no_constant, no_steps = constant < 0, per_step < 0
    per_step = np.where(no_constant, middle / steps if steps > 0 else 0, np.maximum(per_step, 0))
    return np.where(no_steps, middle, np.maximum(constant, 0)), np.where(no_steps, 0, per_step)
