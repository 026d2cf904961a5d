"""The voice: its speed and first audio against its law, the published prediction, and playback without gaps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from profiling.first_audio import Said, TtsLaw, checks, tts_law, why_no_law
from profiling.interval import Interval
from profiling.operations import FIRST_PATCH, PATCH, SETUP, numbers
from profiling.predictions.conditions import NOT_CALIBRATED, Conditions, Measured, first_impossible
from profiling.predictions.prediction import Figure, Law, Prediction, compare
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import described, loop_ns

# VoxCPM2 whole sentences, a regression over 12 points on another machine: reference.md, section 3. As rounded there.
PUBLISHED = Interval(value=0.306, low=0.225 + 0.0755, high=0.235 + 0.0765, n=12)
_INTERCEPT_AND_PATCH = "intercept + one patch, from when the voice gets its text"
_DRAWS = 400


@dataclass(frozen=True)
class _Phrase:
    """A phrase's set-up and patches, as steps of a turn."""

    setup: Step
    patches: tuple[Step, ...]
    said: Said
    sound_s: float | None

    @property
    def synthesis_s(self) -> float:
        return sum(sum(loop_ns(step) or (step.duration_ns,)) for step in (self.setup, *self.patches)) / 1e9


def voice(turns: Sequence[Measured], conditions: Conditions) -> Iterator[Prediction]:
    calibrated = conditions.calibration.phrases if conditions.calibration else ()
    law = tts_law(calibrated)
    missing = (why_no_law(calibrated) if calibrated else None) or NOT_CALIBRATED
    first = [figure for one in turns for figure in _first_audio(one, conditions)]
    yield _speed(turns, law, missing, conditions)
    yield compare(
        Law(
            "first audio",
            _INTERCEPT_AND_PATCH,
            "s",
            lambda said: law.interval_at(said) if law else None,
            missing if first else "No phrase was spoken in this run.",
            size=lambda said: law.at(said) if law else None,
        ),
        first,
        _told(law, first, turns, conditions) if law and first else "",
    )
    yield _published(first, conditions)
    yield _playback(turns, law, missing)


def _speed(turns: Sequence[Measured], law: TtsLaw | None, missing: str, conditions: Conditions) -> Prediction:
    figures: list[Figure[list[Said]]] = []
    for one in turns:
        spoken = [phrase for phrase in _phrases(one.turn) if phrase.patches]
        sound_s = sum(phrase.sound_s or 0 for phrase in spoken)
        if one.turn.end_reason is EndReason.COMPLETED and sound_s and all(phrase.sound_s for phrase in spoken):
            value = sum(phrase.synthesis_s for phrase in spoken) / sound_s
            said = [Said(phrase.said.units, phrase.sound_s) for phrase in spoken]
            figures.append(Figure(value, said, first_impossible(one.of(SETUP, FIRST_PATCH, PATCH), conditions)))
    return compare(
        Law(
            "synthesis",
            "(intercept + slope x sound) / sound, over whole replies",
            "s per s",
            lambda replies: law.real_time_factor(replies) if law else None,
            missing if figures else "No reply was spoken to its end in this run.",
            size=lambda said: law.real_time_factor_of(said) if law else None,
        ),
        figures,
        f"Slope {law.slope.value:.3g} s per second of sound." if law and figures else "",
    )


def _first_audio(one: Measured, conditions: Conditions) -> Iterator[Figure[Said]]:
    """From the start of the first phrase's set-up to the end of its first patch."""
    phrase = next(iter(_phrases(one.turn)), None)
    if phrase is None or not phrase.patches:
        return
    first = phrase.patches[0]
    measured_s = (first.end_ns - phrase.setup.start_ns) / 1e9
    readings = one.of(SETUP, FIRST_PATCH, steps=[phrase.setup.index, first.index])
    yield Figure(measured_s, phrase.said, first_impossible(readings, conditions))


def _told(law: TtsLaw, first: Sequence[Figure[Said]], turns: Sequence[Measured], conditions: Conditions) -> str:
    """The law in figures, how it did on phrases that it was not fitted to, and what ran beside it."""
    units = float(np.median([figure.basis.units for figure in first]))
    patch_s = law.slope.value * law.first_patch_sound_s
    told = [f"{law.intercept_at(units):.3f} s + {patch_s:.3f} s."]
    if not law.fewest_units <= units <= law.most_units:
        told.append(f"Beyond what was calibrated: {law.fewest_units:.0f} to {law.most_units:.0f} phonemes or tokens.")
    checked = checks(law, conditions.calibration.phrases) if conditions.calibration else []
    if checked:
        told.append(f"It held for {sum(check.held for check in checked)} of {len(checked)} phrases kept to check it.")
    beside = sum(_decoded_beside(one.turn) for one in turns)
    if beside:
        told.append(f"The language model decoded beside it in {beside} of {len(first)} turns.")
    return " ".join(told)


def _decoded_beside(turn: Turn) -> bool:
    phrase = next(iter(_phrases(turn)), None)
    if phrase is None or not phrase.patches:
        return False
    start_ns, end_ns = phrase.setup.start_ns, phrase.patches[0].end_ns
    decoding = (step for step in turn.steps if step.stage is Stage.LLM_DECODE)
    return any(step.start_ns < end_ns and step.end_ns > start_ns for step in decoding)


def _published(first: Sequence[Figure[Said]], conditions: Conditions) -> Prediction:
    name, formula = "first audio, published", "0.23 s + 0.076 s, VoxCPM2 on a GPU with 24 GB"
    if conditions.full_size_voxcpm2:
        law = Law[Said](name, formula, "s", lambda _: PUBLISHED, "No phrase was spoken in this run.")
        return compare(law, first)
    row = compare(Law[Said](name, formula, "s", lambda _: None, ""), first)
    return Prediction(name, formula, "s", PUBLISHED, row.measured, None, "A different engine: shown for reference.")


def _playback(turns: Sequence[Measured], law: TtsLaw | None, missing: str) -> Prediction:
    figures: list[Figure[float]] = []
    gaps = 0
    for one in turns:
        underrun_s = described(one.turn, v.PLAYOUT, v.PLAYOUT_UNDERRUN_S)
        sound_s = described(one.turn, v.TTS, v.TTS_AUDIO_S)
        if underrun_s is not None and sound_s:
            gaps += underrun_s > 0
            figures.append(Figure(underrun_s / sound_s, sound_s))
    told = ""
    if law and figures:
        told = f"Slope {law.slope.low:.3g} to {law.slope.high:.3g} s per second of sound; "
        told += f"{gaps} of {len(figures)} replies had gaps."
    return compare(
        Law(
            "playback",
            "no gaps with a slope below 1 s per second of sound",
            "s per s",
            lambda _: law.gaps_per_s if law else None,
            missing if figures else "Nothing was played in this run.",
            median=_mean,
        ),
        figures,
        told,
    )


def _mean(values: Sequence[float]) -> Interval:
    """A median would hide gaps that most replies do not have."""
    array, random = np.array(values), np.random.default_rng(0)
    draws = [float(np.mean(random.choice(array, len(array)))) for _ in range(_DRAWS)]
    return Interval.of_draws(float(np.mean(array)), draws, len(values))


def _phrases(turn: Turn) -> Iterator[_Phrase]:
    """Those that were given to the voice, in order; a first patch that is the only one is as long as its phrase."""
    setups = [step for step in turn.steps if step.stage is Stage.TTS_SETUP]
    for setup in setups:
        units = numbers(setup.attributes.get(v.TTS_UNITS))
        if not units:
            continue
        of_phrase = [step for step in turn.steps if step.phrase == setup.phrase]
        first = [step for step in of_phrase if step.stage is Stage.TTS_FIRST_PATCH]
        later = [step for step in of_phrase if step.stage is Stage.TTS_PATCHES]
        group = turn.groups.get((v.TTS, setup.phrase), {})
        sound = numbers(group.get(v.TTS_AUDIO_S))
        sound_s = sound[0] if sound and sound[0] > 0 else None
        only = sound_s if numbers(group.get(v.TTS_PATCHES)) == [1.0] else None
        yield _Phrase(setup, (*first, *later), Said(units[0], only), sound_s)
