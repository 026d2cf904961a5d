"""What a patch is made of, and what it costs more where it is larger or made with more diffusion steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from profiling import operations as op
from profiling.calibration import Sample
from profiling.fit import Line, theil_sen
from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series
from profiling.work_book import OperationWork
from profiling.workload import Work

FRAMES = "frames"  # of a patch's sound, those that it overlaps with its neighbours not counted
_COLUMNS = ("", "time, ms", "within, ms", "share", "GFLOP/s", "GB/s", "n")
_QUALITY = "What fewer diffusion steps do to the sound is not measured: listen before you choose."
_ABBREVIATIONS = {"lm": "LM", "vae": "VAE"}
_REST, _NOTHING_S = "rest", 1e-9


@dataclass(frozen=True)
class Setting:
    """Patches from within `phrases`, all made with one setting of the voice: "4 diffusion steps". Each of them counts
    FORWARDS or FRAMES."""

    name: str
    phrases: tuple[tuple[Sample, ...], ...]

    @property
    def patches(self) -> list[Sample]:
        return [patch for phrase in self.phrases for patch in phrase]

    @property
    def unit(self) -> str:
        return next(iter(self.patches[0].units))

    @property
    def points(self) -> list[tuple[float, float]]:
        """Count and time of a phrase's median patch: patches of one phrase are fast or slow together."""
        return [
            (median(one.units[self.unit] for one in phrase), median(one.duration_s for one in phrase))
            for phrase in self.phrases
            if phrase
        ]

    @property
    def time(self) -> Interval:
        return Interval.of_median([patch.duration_s for patch in self.patches])

    @property
    def parts(self) -> dict[str, Interval]:
        """Seconds of each part, and of what is none's where that is anything."""
        return {part: Interval.of_median(times) for part, times in self._times.items()}

    @property
    def shares(self) -> dict[str, float]:
        """Of all the patches' time; they sum to 1."""
        whole = sum(patch.duration_s for patch in self.patches)
        return {part: sum(times) / whole for part, times in self._times.items()}

    @property
    def _times(self) -> dict[str, list[float]]:
        found = {part: [patch.parts_s[part] for patch in self.patches] for part in self.patches[0].parts_s}
        rest = [patch.duration_s - sum(patch.parts_s.values()) for patch in self.patches]
        return found | {_REST: rest} if max(rest) > _NOTHING_S else found


def patch_finding(
    model: str, settings: Sequence[Setting], first: Sequence[Sample], work: OperationWork | None, overlap: int = 0
) -> Finding:
    """`settings`, the usual one first, are regressed on what they count: t = rest + count * cost of one. `first` are
    first patches made with the usual setting; `work` is a later patch's, None where it is not known. So many frames on
    either side of a patch are decoded once more, `overlap`.

    Raises ValueError without patches, or where all of them count the same.
    """
    usual, unit = settings[0], settings[0].unit
    line = theil_sen([point for setting in settings for point in setting.points])
    return Finding(
        title=f"A patch of {model}",
        columns=_COLUMNS,
        rows=(*_part_rows(usual, first, work), *_sweep_rows(settings, work, unit)),
        plot=_by_part(model, settings) if len(usual.parts) > 1 else _by_size(model, settings, line, unit),
        sentence=f"{_largest(usual)} {_one_less(usual, line, unit, overlap)}",
        notes=(_QUALITY,) if unit == op.FORWARDS else (),
        data={
            "settings": {
                setting.name: [[one.model_dump() for one in phrase] for phrase in setting.phrases]
                for setting in settings
            },
            "first_patches": [one.model_dump() for one in first],
            "work": work.model_dump() if work else None,
            "regression": {
                "on": unit,
                "slope_s": line.slope.model_dump(),
                "rest_s": line.intercept.model_dump(),
            },
        },
    )


def _part_rows(usual: Setting, first: Sequence[Sample], work: OperationWork | None) -> list[tuple[str, ...]]:
    """The parts of a patch made as usual, all of it, and a first patch."""
    known = _work_of_parts(work, usual.patches[0].units)
    rows = [_row(part, time, usual.shares[part], known.get(part)) for part, time in usual.parts.items()]
    rows.append(_row(usual.name, usual.time, 1, _sum(known)))
    if first:
        time = Interval.of_median([one.duration_s for one in first])
        rows.append(_row("first patch", time, time.value / usual.time.value, None))
    return rows


def _sweep_rows(settings: Sequence[Setting], work: OperationWork | None, unit: str) -> list[tuple[str, ...]]:
    """The other settings; their work is known where it is a formula over what they count."""
    grows = work is not None and any(unit in term.flops.per for term in work.terms)
    whole_s = settings[0].time.value
    return [
        _row(
            one.name,
            one.time,
            one.time.value / whole_s,
            _sum(_work_of_parts(work, one.patches[0].units)) if grows else None,
        )
        for one in settings[1:]
    ]


def _work_of_parts(work: OperationWork | None, units: Mapping[str, float]) -> dict[str, Work]:
    """Terms of one part are named for it, and for their number type behind a comma."""
    found: dict[str, Work] = {}
    for name, term in (work.at(units) if work else {}).items():
        part = name.partition(",")[0]
        found[part] = found.get(part, Work()) + term.work
    return found


def _sum(work: Mapping[str, Work]) -> Work | None:
    return sum(work.values(), Work()) if work else None


def _row(name: str, time: Interval, share: float, work: Work | None) -> tuple[str, ...]:
    return (
        _words(name),
        f"{time.value * 1e3:.3g}",
        f"{time.low * 1e3:.3g} to {time.high * 1e3:.3g}",
        f"{100 * share:.0f} %",
        _per_s(work.flops if work else 0, time.value),
        _per_s(work.bytes if work else 0, time.value),
        str(time.n),
    )


def _per_s(amount: float, time_s: float) -> str:
    return f"{amount / time_s / 1e9:.3g}" if amount and time_s > 0 else ""


def _largest(usual: Setting) -> str:
    """Which part dominates, where the bounds of the two largest do not touch."""
    patch, shares = _ms(usual.time.value), usual.shares
    (name, time), *others = sorted(usual.parts.items(), key=lambda part: -part[1].value)
    share = f"{100 * shares[name]:.0f} %"
    if not others:
        return f"A patch of {patch} is nothing but {_words(name)}."
    if time.low <= others[0][1].high:
        other = others[0][0]
        return (
            f"No part of a patch dominates clearly: {_words(name)} takes {share} of {patch} and {_words(other)} "
            f"{100 * shares[other]:.0f} %."
        )
    return f"{_words(name)[0].upper()}{_words(name)[1:]} dominates a patch: {share} of {patch}."


def _one_less(usual: Setting, line: Line, unit: str, overlap: int) -> str:
    slope, rest = line.slope, line.intercept
    one = unit.removesuffix("s")
    if slope.low <= 0:
        return f"What one {one} costs was not seen: within {slope.low * 1e3:.2g} and {_ms(slope.high)}."
    bounds = f"{_ms(slope.value)} ({slope.low * 1e3:.3g} to {slope.high * 1e3:.3g})"
    if unit == op.FORWARDS:
        share = 100 * slope.value / usual.time.value
        return (
            f"A forward takes {bounds}, so one diffusion step fewer makes a patch {share:.1f} % shorter; "
            f"{_ms(rest.value)} ({rest.low * 1e3:.3g} to {rest.high * 1e3:.3g}) do not depend on the steps."
        )
    worth = rest.value / slope.value
    return (
        f"A frame takes {bounds} and a patch {_ms(rest.value)} ({rest.low * 1e3:.3g} to {rest.high * 1e3:.3g}) beside, "
        f"worth {worth:.0f} frames; the {2 * overlap} that overlap its neighbours are decoded again in each patch."
    )


def _words(part: str) -> str:
    return " ".join(_ABBREVIATIONS.get(word, word) for word in part.split("_"))


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:.3g} ms"


def _by_part(model: str, settings: Sequence[Setting]) -> Plot:
    names = list(settings[0].parts)
    series: list[Series] = []
    for setting in settings:
        found = setting.parts
        times = [found.get(name, Interval.exactly(0)).scaled(1e3) for name in names]
        values, lows, highs = ([getattr(time, bound) for time in times] for bound in ("value", "low", "high"))
        series.append(Series(setting.name, list(map(_words, names)), values, lows, highs, style="bars"))
    return Plot(f"A patch of {model}", "part", "time, ms", tuple(series))


def _by_size(model: str, settings: Sequence[Setting], line: Line, unit: str) -> Plot:
    patches = sorted((one.units[unit], one.duration_s * 1e3) for setting in settings for one in setting.patches)
    last = patches[-1][0]
    return Plot(
        f"A patch of {model}",
        f"{unit} of the patch",
        "time, ms",
        (
            Series("measured", [x for x, _ in patches], [y for _, y in patches]),
            Series("rest + cost of one", [0.0, last], [line.at(x) * 1e3 for x in (0.0, last)], style="line"),
        ),
    )
