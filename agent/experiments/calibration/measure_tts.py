"""The voice alone: phrases of several lengths, streamed, some of them only to check the law on."""

from collections.abc import Iterator

from agent.experiments.calibration.budget import Budget
from agent.tts.protocol import Patch, Setup, TtsEngine
from profiling import operations as op
from profiling.calibration import FirstAudio, Sample
from profiling.trace.clock import NS_PER_S

# In an order in which a machine that slows down tilts no line.
_PHRASES = (
    "The capital of France is Paris, a city on the river Seine with two million people.",
    "Good morning.",
    "I think that it will rain in the afternoon, so take a coat with you.",
    "Of course, I can help you.",
    "There are seven days in a week, and the first of them is Monday in most of Europe, though not everywhere.",
    "The kettle is on and the tea is ready.",
)
_CHECKS = ("It is a quarter past nine.", "The museum closes at six, but the garden stays open until sunset.")


def measure_tts(engine: TtsEngine, budget: Budget) -> Iterator[Sample | FirstAudio]:
    """All phrases once, and over again while there is time."""
    for _, text in budget.interleaved((*_PHRASES[:3], _CHECKS[0], *_PHRASES[3:], _CHECKS[1])):
        yield from _said(engine, text, checks=text in _CHECKS)


def _said(engine: TtsEngine, text: str, checks: bool) -> Iterator[Sample | FirstAudio]:
    """The samples of a phrase, then the phrase. The consumer's time is no patch's, and so is not in the ends."""
    units = setup_s = 0.0
    ends_s: list[float] = []
    audio_s: list[float] = []
    for item in engine.synthesise(text, lambda: False):
        took_s = (item.end_ns - item.start_ns) / NS_PER_S
        parts_s = {part: ns / NS_PER_S for part, ns in item.parts_ns.items()}
        if isinstance(item, Setup):
            units, setup_s = float(item.units), took_s
            yield Sample(operation=op.SETUP, duration_s=took_s, units={op.UNITS: units}, parts_s=parts_s)
            continue
        yield _patch_sample(item, took_s, parts_s, first=not ends_s)
        ends_s.append((ends_s[-1] if ends_s else setup_s) + took_s)
        audio_s.append((audio_s[-1] if audio_s else 0.0) + len(item.samples) / engine.sample_rate)
    yield FirstAudio(
        units=units, setup_s=setup_s, patch_ends_s=tuple(ends_s), audio_ends_s=tuple(audio_s), checks=checks
    )


def _patch_sample(patch: Patch, took_s: float, parts_s: dict[str, float], first: bool) -> Sample:
    units = {op.FORWARDS: float(patch.forwards)} if patch.forwards else {}
    return Sample(operation=op.FIRST_PATCH if first else op.PATCH, duration_s=took_s, units=units, parts_s=parts_s)
