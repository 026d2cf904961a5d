"""The ceilings that hold for one run: those of the survey, scaled by what the run's own probes saw."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiling.calibration import CPU, Rates
from profiling.interval import Interval
from profiling.machine.drift import Place, by_place
from profiling.machine.measured import BYTES_PER_S, FLOAT32, MeasuredCeiling
from profiling.machine.probe import ProbeReading
from profiling.machine.survey import Survey
from profiling.roofline import READ


def ceilings_for_run(
    survey: Survey, probes: Sequence[ProbeReading] = (), *, device: str = CPU, threads: int | None = None
) -> Mapping[str, Interval]:
    """Ceilings by name, in bytes or operations per second, for engines with so many threads (None: all cores).

    The rule. A probe reads memory and multiplies in the same way in the survey and in the run, so the ratio of the two
    says how much faster or slower the machine was in the run. With s = the median of the survey's probes, in [s-, s+],
    and m_i = the median of each of the run's probes:

        value = surveyed value * median of all the run's probe values / s
        low   = surveyed low   * min(m_i) / s+
        high  = surveyed high  * max(m_i) / s-

    so the interval is widened by all the drift that the run saw between its probes, and by the survey's own. Rates in
    bytes per second go with the probe of reading, all others with that of float32. The probes must be of the same
    device and number of threads as the survey's; without such, the surveyed interval is returned as it is.

    The number of threads is the surveyed one that is nearest above, else the largest. Where several libraries compute
    the same type, the fastest is the ceiling. Names are empty for a device that was not surveyed.
    """
    there = [ceiling for ceiling in survey.ceilings if ceiling.device == device]
    surveyed, own = by_place(survey.probes), by_place(probes)
    found: dict[str, Interval] = {}
    for name in dict.fromkeys(ceiling.name for ceiling in there):
        named = [ceiling for ceiling in there if ceiling.name == name]
        count = _nearest((ceiling.threads for ceiling in named), threads)
        fastest = max((c for c in named if c.threads == count), key=lambda ceiling: ceiling.interval.value)
        drift = _drift(_probe_of(fastest), surveyed, own)
        found[name] = fastest.interval if drift is None else drift.applied_to(fastest.interval)
    return found


@dataclass(frozen=True)
class _Drift:
    """By what factor a rate was another in the run than in the survey."""

    middle: float
    lowest: float
    highest: float
    n: int

    def applied_to(self, surveyed: Interval) -> Interval:
        return Interval(
            value=surveyed.value * self.middle,
            low=min(surveyed.low * self.lowest, surveyed.value * self.middle),
            high=max(surveyed.high * self.highest, surveyed.value * self.middle),
            n=surveyed.n + self.n,
        )


def _drift(place: Place, surveyed: Mapping[Place, list[Rates]], own: Mapping[Place, list[Rates]]) -> _Drift | None:
    if place not in surveyed or place not in own:
        return None
    then = Interval.of_median(_values(surveyed[place]))
    medians = [statistics.median(rates.values) for rates in own[place]]
    now = _values(own[place])
    return _Drift(statistics.median(now) / then.value, min(medians) / then.high, max(medians) / then.low, len(now))


def _probe_of(ceiling: MeasuredCeiling) -> Place:
    return Place(READ if ceiling.unit == BYTES_PER_S else FLOAT32, ceiling.device, ceiling.threads)


def _values(all_rates: Iterable[Rates]) -> list[float]:
    return [value for rates in all_rates for value in rates.values]


def threads_to_probe(survey: Survey, threads: int | None = None, *, device: str = CPU) -> int:
    """The number of threads that a run's probes must use to be compared with the survey's; 1 without a survey of the
    device."""
    counts = [rates.threads for reading in survey.probes for rates in reading.rates if rates.device == device]
    return _nearest(counts or [1], threads)


def _nearest(counts: Iterable[int], wanted: int | None) -> int:
    ordered = sorted(counts)
    return next((count for count in ordered if wanted is not None and count >= wanted), ordered[-1])
