"""What a run's predictions rest on, and what its turns measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from profiling.calibration import Calibration
from profiling.interval import Interval
from profiling.plausibility import Impossible, Surroundings, impossible
from profiling.readings import Reading, readings
from profiling.trace.garbage import no_search_for_cycles
from profiling.trace.timeline import Turn
from profiling.work_book import WorkBook

NOT_CALIBRATED = "Not calibrated: run `turnscope calibrate`."


@dataclass(frozen=True)
class Conditions:
    """`ceilings` by name, in bytes or operations per second. `calibration` is of this machine and these engines.

    `flushed` says whether the recogniser's stream is flushed with silence at the end of speech, None where that is not
    known; `tail_s` of silence after the last voiced sample are recognised too. `full_size_voxcpm2` says that the voice
    is VoxCPM2 in its full size, for which a prediction was published.
    """

    book: WorkBook = field(default_factory=WorkBook)
    ceilings: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    calibration: Calibration | None = None
    flushed: bool | None = None
    tail_s: float = 0.0
    full_size_voxcpm2: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True)
class Measured:
    """A turn and what its engines' steps took."""

    turn: Turn
    readings: Sequence[Reading]

    def of(self, *operations: str, steps: Iterable[int] | None = None) -> list[Reading]:
        """Those of some operations, and of some steps only where these are given."""
        wanted = None if steps is None else set(steps)
        return [r for r in self.readings if r.operation in operations and (wanted is None or r.step in wanted)]


def measure(turns: Iterable[Turn], conditions: Conditions) -> list[Measured]:
    with no_search_for_cycles():
        return [Measured(turn, readings(turn, conditions.book, conditions.ceilings)) for turn in turns]


def first_impossible(found: Iterable[Reading], conditions: Conditions) -> Impossible | None:
    """None when all readings can be true."""
    judged = (impossible(reading, conditions.ceilings, conditions.surroundings) for reading in found)
    return next((one for one in judged if one is not None), None)


def missing_ceilings(operation: str, conditions: Conditions) -> str:
    """Why there is no least time for an operation."""
    known = conditions.book.operations.get(operation)
    if known is None or not known.terms:
        return "The work of this model is not known."
    names = sorted({name for term in known.terms for name in (term.rate, term.read)} - conditions.ceilings.keys())
    if names:
        return f"Not measured on this machine: {', '.join(names)}. Run `turnscope machine`."
    return "Nothing of this was measured in the run."
