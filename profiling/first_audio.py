"""The law of a voice on a machine: when a patch is there, and so when a phrase is first heard, from phrases streamed
alone.

Along each phrase the time until a patch's end is regressed on the sound that had come by then, the first patch left
out: what the line says of the first patch is then a prediction. Over the phrases the slopes' median is the voice's, and
the lines' constants are regressed on the phrases' units (phonemes, text tokens) where set-up is seen to grow with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiling.calibration import FirstAudio
from profiling.fit import lines
from profiling.interval import CONFIDENCE, Interval
from profiling.spread import of_median, spread

MIN_LENGTHS = 6
_LENGTH_S = 0.01  # phrases that differ in sound by less are of one length
_DRAWS = 400


@dataclass(frozen=True)
class Said:
    """A phrase to be predicted: `sound_s` is the sound by the end of the patch in question, None for a first patch of
    the voice's usual size."""

    units: float
    sound_s: float | None = None


@dataclass(frozen=True)
class TtsLaw:
    """A patch's end, in seconds after the text: `fixed + per_unit * units + slope * sound`, in seconds of sound so far.

    `first_patch_sound_s` and `patch_sound_s` are the sound of a first and of a later patch; `fewest_units` and
    `most_units` those of the phrases. `draws` are, a row a draw, fixed, per_unit and slope of the bootstrap over
    phrases, and how far a phrase of that draw lies from them, as a share.
    """

    fixed: Interval
    per_unit: Interval
    slope: Interval
    first_patch_sound_s: float
    patch_sound_s: float
    fewest_units: float
    most_units: float
    lengths: int
    draws: NDArray[np.float64]

    def at(self, said: Said) -> float:
        sound_s = self.first_patch_sound_s if said.sound_s is None else said.sound_s
        return self.intercept_at(said.units) + self.slope.value * sound_s

    def interval_at(self, said: Sequence[Said]) -> Interval:
        """Of the median over phrases like these. The spread between phrases is in it, whole for one phrase, and as far
        as a median over so many keeps it. Raises ValueError without any."""
        return self._interval(np.array([self._row(one) for one in said]), np.ones(len(said)))

    def real_time_factor(self, phrases: Sequence[Sequence[Said]]) -> Interval:
        """Seconds of synthesis per second of sound: the median over replies, each of several whole phrases, whose sound
        must be known. Raises ValueError without any."""
        rows = np.array([np.sum([self._row(one) for one in reply], axis=0) for reply in phrases])
        return self._interval(rows, np.array([sum(one.sound_s or 0 for one in reply) for reply in phrases]))

    def real_time_factor_of(self, phrases: Sequence[Said]) -> float:
        """Of one reply."""
        return sum(map(self.at, phrases)) / sum(one.sound_s or 0 for one in phrases)

    def intercept_at(self, units: float) -> float:
        """The regression's constant for a phrase of so many units."""
        return self.fixed.value + self.per_unit.value * units

    @property
    def patch_s(self) -> Interval:
        """One later patch."""
        return self.slope.scaled(self.patch_sound_s)

    @property
    def gaps_per_s(self) -> Interval:
        """Seconds for which playback stands still per second of sound, by the slope: none below 1."""
        value, low, high = (max(0.0, s - 1) for s in (self.slope.value, self.slope.low, self.slope.high))
        return Interval(value=value, low=low, high=high, n=self.slope.n)

    def _row(self, said: Said) -> NDArray[np.float64]:
        sound_s = self.first_patch_sound_s if said.sound_s is None else said.sound_s
        return np.array([1.0, said.units, sound_s])

    def _interval(self, rows: NDArray[np.float64], over: NDArray[np.float64]) -> Interval:
        if not len(rows):
            raise ValueError("no phrases")
        middle = np.array([self.fixed.value, self.per_unit.value, self.slope.value])
        shares = 1 + of_median(len(rows)) * self.draws[:, 3]
        values = np.median(self.draws[:, :3] @ rows.T / over, axis=1) * shares
        return Interval.of_draws(float(np.median(rows @ middle / over)), list(map(float, values)), self.fixed.n)


@dataclass(frozen=True)
class Check:
    """The first audio of a phrase that the law was not fitted to."""

    predicted: Interval
    measured_s: float

    @property
    def held(self) -> bool:
        return self.predicted.low <= self.measured_s <= self.predicted.high


def tts_law(phrases: Sequence[FirstAudio], *, seed: int = 0) -> TtsLaw | None:
    """None where `why_no_law` says why."""
    return None if why_no_law(phrases) else _Calibrated(phrases).law(seed)


def why_no_law(phrases: Sequence[FirstAudio]) -> str | None:
    """A sentence; None when there is a law."""
    used = _used(phrases)
    lengths = _lengths(used)
    if lengths < MIN_LENGTHS:
        return f"The voice was streamed at {lengths} of at least {MIN_LENGTHS} lengths: run `turnscope calibrate`."
    if sum(len(one.patch_ends_s) > 2 for one in used) < MIN_LENGTHS // 2:
        return "Too few phrases were of three patches or more: calibrate with longer ones."
    found = _Calibrated(phrases)
    fixed, per_unit, slope = found.constants(np.arange(len(found.units))[None])[0]
    if slope <= 0 or (fixed + per_unit * found.units + slope * found.first_sounds <= 0).any():
        return "The machine's speed changed too much while the voice was calibrated: run `turnscope calibrate` again."
    return None


def checks(law: TtsLaw, phrases: Sequence[FirstAudio]) -> list[Check]:
    """Of those phrases that were kept for it."""
    kept = [one for one in phrases if one.checks and one.patch_ends_s and one.audio_ends_s]
    return [Check(law.interval_at([Said(one.units, one.audio_ends_s[0])]), one.patch_ends_s[0]) for one in kept]


def _used(phrases: Sequence[FirstAudio]) -> list[FirstAudio]:
    return [one for one in phrases if not one.checks and len(one.patch_ends_s) == len(one.audio_ends_s) > 1]


def _lengths(phrases: Sequence[FirstAudio]) -> int:
    return len({round(one.audio_ends_s[-1] / _LENGTH_S) for one in phrases})


class _Calibrated:
    """The phrases' own lines, of which a law is made. A phrase of two patches has none; its constant is what the usual
    slope leaves."""

    def __init__(self, phrases: Sequence[FirstAudio]) -> None:
        used = _used(phrases)
        later = [(np.array(one.audio_ends_s[1:]), np.array(one.patch_ends_s[1:])) for one in used]
        by_phrase = [lines(sound_s[None], end_s[None]) for sound_s, end_s in later]
        self.slopes = np.array([float(slopes[0]) for _, slopes in by_phrase])
        usual = np.nanmedian(self.slopes)
        self.intercepts = np.array(
            [
                float(np.median(end_s - (usual if np.isnan(slope) else slope) * sound_s))
                for (sound_s, end_s), slope in zip(later, self.slopes, strict=True)
            ]
        )
        self.units = np.array([one.units for one in used])
        self.first_sounds = np.array([one.audio_ends_s[0] for one in used])
        self.first_ends = np.array([one.patch_ends_s[0] for one in used])
        self.patch_sounds = np.concatenate([np.diff(one.audio_ends_s) for one in used])
        self.lengths = _lengths(used)

    def constants(self, chosen: NDArray[np.intp], grows: bool = True) -> NDArray[np.float64]:
        """Fixed, per unit (0 unless set-up `grows`) and slope, a row for each row of chosen phrases."""
        fixed = np.median(self.intercepts[chosen], axis=1)
        per_unit = np.zeros(len(chosen))
        if grows and len(set(self.units)) > 1:
            fixed, per_unit = lines(self.units[chosen], self.intercepts[chosen])
        slopes = self.slopes[chosen]
        slopes[np.isnan(slopes).all(axis=1)] = np.nanmedian(self.slopes)
        found = np.column_stack([fixed, per_unit, np.nanmedian(slopes, axis=1)])
        return found[~np.isnan(found).any(axis=1)]

    def law(self, seed: int) -> TtsLaw:
        count, random = len(self.units), np.random.default_rng(seed)
        every, drawn = np.arange(count)[None], random.integers(count, size=(_DRAWS, count))
        draws = self.constants(drawn)
        lowest, highest = np.quantile(draws[:, 1], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        grows = bool(lowest > 0 or highest < 0)
        draws = draws if grows else self.constants(drawn, grows)
        middle = self.constants(every, grows)[0]
        predicted = middle[0] + middle[1] * self.units + middle[2] * self.first_sounds
        free = count - (2 if grows else 1)
        apart = spread(self.first_ends / predicted) * (count / free) ** 0.5
        fixed, per_unit, slope = (
            Interval.of_draws(float(value), list(map(float, column)), count)
            for value, column in zip(middle, draws.T, strict=True)
        )
        return TtsLaw(
            fixed,
            per_unit,
            slope,
            float(np.median(self.first_sounds)),
            float(np.median(self.patch_sounds)),
            float(self.units.min()),
            float(self.units.max()),
            self.lengths,
            np.column_stack([draws, apart * random.standard_t(free, len(draws))]),
        )
