"""How far a machine's rates have moved between probes."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profiling.calibration import Rates
from profiling.machine.probe import ProbeReading

NOTEWORTHY = 0.15  # of the lowest median


@dataclass(frozen=True)
class Place:
    """What a probe's rate is of; only rates of one place can be compared."""

    name: str
    device: str
    threads: int


def by_place(readings: Iterable[ProbeReading]) -> dict[Place, list[Rates]]:
    found: dict[Place, list[Rates]] = {}
    for reading in readings:
        for rates in reading.rates:
            if rates.values:
                found.setdefault(Place(rates.name, rates.device, rates.threads), []).append(rates)
    return found


def drifting_rates(readings: Sequence[ProbeReading]) -> list[str]:
    """A sentence for every rate whose medians lie far apart."""
    said: list[str] = []
    for place, rates in by_place(readings).items():
        medians = [statistics.median(each.values) for each in rates]
        lowest, highest = min(medians), max(medians)
        if highest / lowest - 1 > NOTEWORTHY:
            where = f"{place.device}, {place.threads} thread{'s' if place.threads > 1 else ''}"
            said.append(
                f"The machine drifts: between probes {place.name} ({where}) moved from {lowest / 1e9:.1f} to "
                f"{highest / 1e9:.1f} G{rates[0].unit}."
            )
    return said
