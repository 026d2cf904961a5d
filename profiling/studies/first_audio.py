"""First audio: what intercept + one patch predicts, and when phrases that the law was not fitted to were first
heard."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from profiling.calibration import FirstAudio
from profiling.first_audio import Said, TtsLaw, tts_law, why_no_law
from profiling.interval import Interval
from profiling.predictions.voice import PUBLISHED
from profiling.studies.finding import Finding, Plot, Series

_UNSURE = 0.3  # of the prediction: with a half-width beyond it nothing is confirmed
_HELD = 0.75  # of the phrases within their intervals: a law that is right leaves out one in twenty


@dataclass(frozen=True)
class Heard:
    """The first audio of one text, said several times."""

    units: float
    predicted: Interval
    measured: Interval

    @property
    def error(self) -> float:
        """Measured beyond predicted, as a share of the prediction."""
        return self.measured.value / self.predicted.value - 1

    @property
    def held(self) -> bool:
        return self.predicted.low <= self.measured.value <= self.predicted.high


def heard(law: TtsLaw, phrases: Sequence[FirstAudio]) -> list[Heard]:
    """Of the phrases that the law was not fitted to, by text: those of the same units and size of the first patch."""
    by_text: dict[Said, list[float]] = {}
    for one in phrases:
        if one.checks and one.patch_ends_s and one.audio_ends_s:
            by_text.setdefault(Said(one.units, one.audio_ends_s[0]), []).append(one.patch_ends_s[0])
    return [
        Heard(said.units, law.interval_at([said] * len(times)), Interval.of_median(times))
        for said, times in sorted(by_text.items(), key=lambda item: item[0].units)
    ]


def first_audio_finding(model: str, unit: str, phrases: Sequence[FirstAudio], *, full_size_voxcpm2: bool) -> Finding:
    """The law is fitted to the phrases that check nothing and held against the others. `unit` is what set-up grows with
    (phoneme, text token); the published figure gets a verdict only with the model that it was published for.

    Raises ValueError with a sentence where no law comes out, and without phrases to hold it against.
    """
    law = tts_law(phrases)
    if law is None:
        raise ValueError(why_no_law(phrases))
    texts = heard(law, phrases)
    if not texts:
        raise ValueError("No phrase was kept to check the law on.")
    return Finding(
        title=f"First audio of {model}, ms",
        columns=("phrase", "predicted", "within", "measured", "error", "held", "n"),
        rows=(*(_row(unit, one) for one in texts), _published_row(texts, full_size_voxcpm2)),
        plot=_plot(model, unit, law, texts),
        sentence=_sentence(law, texts, unit),
        notes=(*_unsure(texts), *_published_note(full_size_voxcpm2)),
        data={
            "phrases": [one.model_dump() for one in phrases],
            "fixed_s": law.fixed.model_dump(),
            "per_unit_s": law.per_unit.model_dump(),
            "slope": law.slope.model_dump(),
            "predicted_s": [one.predicted.model_dump() for one in texts],
            "measured_s": [one.measured.model_dump() for one in texts],
        },
    )


def _row(unit: str, one: Heard) -> tuple[str, ...]:
    return (
        f"{one.units:.0f} {unit}s",
        *_predicted(one.predicted),
        f"{one.measured.value * 1e3:.3g}",
        f"{round(100 * one.error):+d} %",
        "yes" if one.held else "no",
        str(one.measured.n),
    )


def _published_row(texts: Sequence[Heard], full_size_voxcpm2: bool) -> tuple[str, ...]:
    """Published for phrases of any length; a verdict only for the model that it was published for."""
    measured_s = median(one.measured.value for one in texts)
    error = f"{round(100 * (measured_s / PUBLISHED.value - 1)):+d} %"
    held = "yes" if PUBLISHED.low <= measured_s <= PUBLISHED.high else "no"
    verdict = (error, held) if full_size_voxcpm2 else ("", "")
    count = str(sum(one.measured.n for one in texts))
    return "published", *_predicted(PUBLISHED), f"{measured_s * 1e3:.3g}", *verdict, count


def _predicted(one: Interval) -> tuple[str, str]:
    return f"{one.value * 1e3:.3g}", f"{one.low * 1e3:.3g} to {one.high * 1e3:.3g}"


def _sentence(law: TtsLaw, texts: Sequence[Heard], unit: str) -> str:
    errors = [one.error for one in texts]
    worst, middle = max(map(abs, errors)), median(errors)
    count = sum(one.held for one in texts)
    within = f"{count} of {len(texts)} lengths lie within what it states"
    held = count >= _HELD * len(texts)
    if held and _widest(texts) > _UNSURE:
        return (
            f"Whether intercept + one patch holds here cannot be told: {within}, but it is only known to "
            f"{100 * _widest(texts):.0f} %."
        )
    growth = f" + {law.per_unit.value * 1e3:.3g} ms per {unit}" if law.per_unit.value else ""
    patch_s = law.slope.value * law.first_patch_sound_s
    formula = f"{law.fixed.value * 1e3:.3g} ms{growth} + {patch_s * 1e3:.3g} ms"
    if held:
        return f"Intercept + one patch holds here: {formula} predicts first audio within {100 * worst:.0f} %; {within}."
    when = "later" if middle > 0 else "earlier"
    return (
        f"Intercept + one patch does not hold here: first audio comes {100 * abs(middle):.0f} % {when} than {formula} "
        f"predicts (median, at worst {100 * worst:.0f} % off); {within}."
    )


def _widest(texts: Sequence[Heard]) -> float:
    return max(one.predicted.half_width for one in texts)


def _unsure(texts: Sequence[Heard]) -> list[str]:
    if _widest(texts) <= _UNSURE:
        return []
    return ["The machine's speed changed much between phrases: the prediction is wide. Run it with nothing beside it."]


def _published_note(full_size_voxcpm2: bool) -> list[str]:
    if full_size_voxcpm2:
        return []
    return ["The published 0.23 s + 0.076 s is another engine's, VoxCPM2's on a GPU with 24 GB: shown for reference."]


def _plot(model: str, unit: str, law: TtsLaw, texts: Sequence[Heard]) -> Plot:
    units = [one.units for one in texts]
    shown: list[Series] = []
    for label, times in (
        ("intercept + one patch", [one.predicted.scaled(1e3) for one in texts]),
        ("measured", [one.measured.scaled(1e3) for one in texts]),
    ):
        values, lows, highs = ([getattr(time, bound) for time in times] for bound in ("value", "low", "high"))
        shown.append(Series(label, units, values, lows, highs))
    intercept = [law.intercept_at(x) * 1e3 for x in units]
    shown.append(Series("intercept alone", units, intercept, style="line"))
    return Plot(f"First audio of {model}", f"{unit}s", "time, ms", tuple(shown))
