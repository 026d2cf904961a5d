"""The fixed cost of a phrase: the constant of the regression of its patches' ends on its sound, and what it is made
of."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from profiling import operations as op
from profiling.calibration import FirstAudio, Sample
from profiling.first_audio import TtsLaw, tts_law, why_no_law
from profiling.fit import Fit, fit
from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series

_OTHER, _NOTHING_S = "rest", 1e-9


@dataclass(frozen=True)
class FixedCost:
    """At a phrase of so many `units`, in seconds. `intercept` is the regression's constant there and `setup` what its
    `parts` sum to, all of them as laws over the units; `first_patch` is how much longer a first patch takes than the
    regression gives its sound (negative: shorter)."""

    units: float
    intercept: Interval
    setup: Fit
    parts: dict[str, Fit]
    first_patch: Interval
    law: TtsLaw

    def at(self, part: Fit) -> Interval:
        return part.interval_at({op.UNITS: self.units})

    @property
    def remains(self) -> Interval:
        """What set-up does not explain of the intercept."""
        return minus(self.intercept, self.at(self.setup))

    @property
    def unexplained(self) -> Interval:
        """What neither set-up nor the first patch does."""
        return minus(self.remains, self.first_patch)


def fixed_cost(setups: Sequence[Sample], phrases: Sequence[FirstAudio]) -> FixedCost:
    """Of a phrase of middling length. Raises ValueError with a sentence where no law comes out."""
    law = tts_law(phrases)
    if law is None:
        raise ValueError(why_no_law(phrases))
    used = [one for one in phrases if not one.checks and one.patch_ends_s]
    units = float(np.median([one.units for one in used]))
    draws = law.draws[:, 0] + law.draws[:, 1] * units
    extra = [one.patch_ends_s[0] - one.setup_s - law.slope.value * one.audio_ends_s[0] for one in used]
    return FixedCost(
        units,
        Interval.of_draws(law.intercept_at(units), list(map(float, draws)), law.fixed.n),
        _over_units(setups, [one.duration_s for one in setups]),
        {part: _over_units(setups, times) for part, times in _parts(setups).items()},
        Interval.of_median(extra),
        law,
    )


def minus(one: Interval, other: Interval) -> Interval:
    """Their difference, each as uncertain as the other leaves it: errors add up in squares."""
    value = one.value - other.value
    low = value - hypot(one.value - one.low, other.high - other.value)
    return Interval(
        value=value, low=low, high=value + hypot(one.high - one.value, other.value - other.low), n=min(one.n, other.n)
    )


def fixed_cost_finding(model: str, unit: str, setups: Sequence[Sample], phrases: Sequence[FirstAudio]) -> Finding:
    """From phrases of at least six lengths and their set-ups; `unit` is what set-up grows with (phoneme, text token).

    Raises ValueError with a sentence where no law comes out.
    """
    found = fixed_cost(setups, phrases)
    return Finding(
        title=f"What a phrase of {found.units:.0f} {unit}s pays beside its sound, ms: {model}",
        columns=("", "time", "within", "share", "at none", "and each", "n"),
        rows=tuple(_rows(found)),
        plot=_plot(model, unit, found, setups),
        sentence=_sentence(found, unit),
        data={
            "phrases": [one.model_dump() for one in phrases],
            "setups": [one.model_dump() for one in setups],
            "units": found.units,
            "intercept_s": found.intercept.model_dump(),
            "remains_s": found.remains.model_dump(),
            "first_patch_s": found.first_patch.model_dump(),
        },
    )


def _parts(setups: Sequence[Sample]) -> dict[str, list[float]]:
    """Of every set-up, with what is no part's; those that take no time are left out."""
    names = dict.fromkeys(part for one in setups for part in one.parts_s)
    parts = {part: [one.parts_s.get(part, 0.0) for one in setups] for part in names}
    parts[_OTHER] = [one.duration_s - sum(one.parts_s.values()) for one in setups]
    return {part: times for part, times in parts.items() if max(times) > _NOTHING_S}


def _over_units(setups: Sequence[Sample], times_s: Sequence[float]) -> Fit:
    return fit([{op.UNITS: one.units[op.UNITS]} for one in setups], times_s)


def _rows(found: FixedCost) -> list[tuple[str, ...]]:
    rows = [_law_row(part.replace("_", " "), law, found) for part, law in found.parts.items()]
    rows.append(_law_row("set-up", found.setup, found))
    rows.append(_row("first patch's excess", found.first_patch, found, signed=True))
    rows.append(_row("unexplained", found.unexplained, found, signed=True))
    law = found.law
    constant, growth = f"{law.fixed.value * 1e3:.3g}", f"{law.per_unit.value * 1e3:.3g}"
    return [*rows, _row("intercept", found.intercept, found, constant, growth)]


def _law_row(name: str, law: Fit, found: FixedCost) -> tuple[str, ...]:
    growth = law.coefficients.get(op.UNITS)
    return _row(
        name,
        found.at(law),
        found,
        f"{law.constant.value * 1e3:.3g}" if growth else "",
        f"{growth.value * 1e3:.3g}" if growth else "",
    )


def _row(
    name: str, time: Interval, found: FixedCost, constant: str = "", growth: str = "", *, signed: bool = False
) -> tuple[str, ...]:
    share = f"{round(100 * time.value / found.intercept.value)} %" if found.intercept.value > 0 else ""
    sign = "+" if signed else ""
    within = f"{time.low * 1e3:{sign}.3g} to {time.high * 1e3:{sign}.3g}"
    return name, f"{time.value * 1e3:{sign}.3g}", within, share, constant, growth, str(time.n)


def _sentence(found: FixedCost, unit: str) -> str:
    intercept, setup, remains = found.intercept, found.at(found.setup), found.remains
    phrase = f"phrase of {found.units:.0f} {unit}s"
    if intercept.low <= 0:
        return (
            f"No fixed cost was found: for a {phrase} it lies within {intercept.low * 1e3:.3g} and "
            f"{intercept.high * 1e3:.3g} ms, which may be nothing. Its set-up takes {setup.value * 1e3:.3g} ms."
        )
    largest = max(found.parts, key=lambda part: found.at(found.parts[part]).value)
    largest_s, first_s = found.at(found.parts[largest]).value, found.first_patch.value
    return (
        f"A {phrase} pays {intercept.value * 1e3:.3g} ms ({intercept.low * 1e3:.3g} to {intercept.high * 1e3:.3g}) "
        f"beside the time of its sound. Set-up takes {setup.value * 1e3:.3g} ms, most of it "
        f"{largest.replace('_', ' ')} ({largest_s * 1e3:.3g} ms), and {_growth(found.setup, unit)}; "
        f"{remains.value * 1e3:+.3g} ms ({remains.low * 1e3:+.3g} to {remains.high * 1e3:+.3g}) remain, of which a "
        f"first patch unlike the later ones explains {first_s * 1e3:+.3g} ms."
    )


def _growth(setup: Fit, unit: str) -> str:
    growth = setup.coefficients.get(op.UNITS)
    if growth is None or growth.low <= 0 <= growth.high:
        return "is not seen to grow with the text"
    return f"grows by {growth.value * 1e3:.3g} ms a {unit}"


def _plot(model: str, unit: str, found: FixedCost, setups: Sequence[Sample]) -> Plot:
    units = [one.units[op.UNITS] for one in setups]
    ends = [0.0, max(units)]
    parts = _parts(setups)
    points = [Series(part.replace("_", " "), units, [s * 1e3 for s in times]) for part, times in parts.items()]
    setup = [found.setup.at({op.UNITS: x}) * 1e3 for x in ends]
    intercept = [found.law.intercept_at(x) * 1e3 for x in ends]
    return Plot(
        f"The fixed cost of a phrase of {model}",
        f"{unit}s",
        "time, ms",
        (
            *points,
            Series("set-up", ends, setup, style="line"),
            Series("intercept of the regression", ends, intercept, style="line"),
        ),
    )
