"""What cannot be: work that was done faster than a measured ceiling's upper bound allows, and the likeliest cause.

Such a figure belongs in no summary: `impossible_steps` tells which steps of a turn it is, and
`profiling.impossibilities` gathers those of a run, for all that is summed up to leave them out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from profiling.calibration import CPU
from profiling.interval import Interval
from profiling.operations import FIRST_PATCH, PATCH, PREFILL
from profiling.readings import Reading, ceilings_of
from profiling.roofline import BANDWIDTH

_CALLS = 3  # a step that took less than so many empty calls may have been asked for only, not done
_MANY_STEPS = 4
_MOSTLY = 0.5  # of the least time: work that reads for longer is bound by reading


class Cause(StrEnum):
    """Why a figure is impossible."""

    PREFIX_CACHE = "prefix cache"
    NO_SYNCHRONISATION = "missing synchronisation"
    IN_CACHE = "weights in the processor's cache"
    CLOCK_STEP = "clock step"
    WRONG_COUNT = "wrong token count"


@dataclass(frozen=True)
class Surroundings:
    """What tells the causes apart, as far as it is known.

    `call_s` is the cost of an empty call, by device. `clock_stepped_s` is how far the clock that the durations were
    read from was set forward meanwhile (`profiling.clock_step`): 0 for a monotonic one, as in Turnscope's own traces.
    """

    last_level_cache_bytes: float | None = None
    call_s: Mapping[str, float] = field(default_factory=dict[str, float])
    clock_stepped_s: float = 0.0


@dataclass(frozen=True)
class Impossible:
    """`share` is that of the counted work which can have been done at most; of a prompt, the rest was cached."""

    reading: Reading
    cause: Cause
    share: float

    @property
    def times_too_fast(self) -> float:
        return 1 / self.share if self.share > 0 else float("inf")

    @property
    def cached_fraction(self) -> float | None:
        """How much of the prompt a prefix cache must have answered, by the ceiling's value."""
        return 1 - self.share if self.cause is Cause.PREFIX_CACHE else None

    @property
    def sentence(self) -> str:
        least_s = self.reading.least.value if self.reading.least else 0.0
        told = f"{_ms(self.reading.duration_s)} where the machine needs {_ms(least_s)}"
        too_fast = f"Impossible: {told}, {self.times_too_fast:.3g} times too fast."
        return f"{too_fast} Likeliest cause: {self.likeliest}; {self._remedy()}."

    @property
    def cause_name(self) -> str:
        """The cause; what was counted wrongly of a voice are its patches."""
        of_patches = self.cause is Cause.WRONG_COUNT and self.reading.operation in (FIRST_PATCH, PATCH)
        return "wrong patch count" if of_patches else self.cause.value

    @property
    def likeliest(self) -> str:
        """The cause in a few words, with how much of a prompt was cached."""
        match self.cause:
            case Cause.PREFIX_CACHE:
                return f"a prefix cache answered about {1 - self.share:.0%} of the prompt"
            case Cause.NO_SYNCHRONISATION:
                return "missing synchronisation"
            case Cause.IN_CACHE:
                return "weights that stayed in the processor's cache"
            case Cause.CLOCK_STEP:
                return "a clock that was set back"
            case Cause.WRONG_COUNT:
                return f"a {self.cause_name}"

    def _remedy(self) -> str:
        match self.cause:
            case Cause.PREFIX_CACHE:
                return "measure with prompts that share no beginning"
            case Cause.NO_SYNCHRONISATION:
                return "the time is that of asking for the work: synchronise with the device before reading the clock"
            case Cause.IN_CACHE:
                return "they fit into it, and the memory's bandwidth is no ceiling for them"
            case Cause.CLOCK_STEP:
                return "take durations from a monotonic clock"
            case Cause.WRONG_COUNT:
                counted = self.reading.count
                of = f" of the {counted} counted" if counted > 1 else " of the work that was counted"
                return f"at most {self.share:.0%}{of} can have been done"


def impossible(
    reading: Reading, ceilings: Mapping[str, Interval], surroundings: Surroundings | None = None
) -> Impossible | None:
    """None when the reading can be true, or nothing is known against it."""
    if reading.least is None or reading.duration_s >= reading.least.low:
        return None
    cause = _likeliest(reading, reading.least, ceilings, surroundings or Surroundings())
    return Impossible(reading, cause, max(0.0, reading.duration_s / reading.least.value))


def impossible_steps(
    readings: Iterable[Reading], ceilings: Mapping[str, Interval], surroundings: Surroundings | None = None
) -> dict[int, Impossible]:
    """By the index of their step: what a turn's summary leaves out."""
    judged = ((reading.step, impossible(reading, ceilings, surroundings)) for reading in readings)
    return {step: one for step, one in judged if step is not None and one is not None}


def _likeliest(
    reading: Reading, least: Interval, ceilings: Mapping[str, Interval], surroundings: Surroundings
) -> Cause:
    set_back_s, missing_s = -surroundings.clock_stepped_s, least.low - reading.duration_s
    if set_back_s > 0 and set_back_s >= missing_s:
        return Cause.CLOCK_STEP
    if _only_asked_for(reading, surroundings.call_s.get(reading.device)):
        return Cause.NO_SYNCHRONISATION
    if _fits_into_cache(reading, ceilings, surroundings.last_level_cache_bytes):
        return Cause.IN_CACHE
    return Cause.PREFIX_CACHE if reading.operation == PREFILL else Cause.WRONG_COUNT


def _only_asked_for(reading: Reading, call_s: float | None) -> bool:
    """Whether many steps on a device that computes beside the program took hardly longer than empty calls."""
    if call_s is None or reading.device == CPU or reading.steps < _MANY_STEPS:
        return False
    return reading.duration_s <= _CALLS * call_s * reading.steps


def _fits_into_cache(reading: Reading, ceilings: Mapping[str, Interval], cache_bytes: float | None) -> bool:
    """Whether reading takes most of the least time, and what one step reads is smaller than the processor's cache."""
    if cache_bytes is None or reading.device != CPU or not ceilings_of(reading.terms) <= ceilings.keys():
        return False
    rates = {name: one.value for name, one in ceilings.items()}
    times = [(term.seconds(rates), term.bound(rates)) for term in reading.terms]
    reads_s = sum(s for s, bound in times if bound == BANDWIDTH)
    step_bytes = sum(term.work.bytes for term in reading.terms) / max(1.0, reading.steps)
    return reads_s > _MOSTLY * sum(s for s, _ in times) and step_bytes < cache_bytes


def _ms(s: float) -> str:
    return f"{s * 1e3:,.3g} ms" if s < 1 else f"{s:,.3g} s"
