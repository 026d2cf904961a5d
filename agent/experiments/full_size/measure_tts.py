"""The voice: set-up and patches by part, and first audio against the law of first audio.

That law's constants come from other phrases, streamed and cut at several lengths: the regression of the time until a
patch on its number, the first ones left out, gives the intercept and the time of one patch.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from agent.experiments.full_size.demands import Demand, of_patch, of_setup
from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.samples import INTERCEPT_AND_PATCH, PATCH_LOOP, SUM, Sample
from agent.experiments.full_size.settings import Placed
from agent.experiments.full_size.words import phrase
from agent.experiments.workload.laws import TtsLaw
from agent.tts.protocol import Patch, Setup
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import load
from profiling.fit import theil_sen
from profiling.trace.clock import Clock, seconds

ENGINE = "tts"


@dataclass(frozen=True)
class _Said:
    """A phrase as far as it was streamed."""

    setup: Setup
    patches: tuple[Patch, ...]

    @property
    def points_after_first(self) -> list[tuple[int, float]]:
        """Number of patches and the time until the last of them was there, for each but the first."""
        times = accumulate((_length_s(patch) for patch in self.patches), initial=_length_s(self.setup))
        return list(enumerate(times))[2:]

    @property
    def first_audio_s(self) -> float:
        return _length_s(self.setup) + _length_s(self.patches[0])


def measure_tts(
    folder: Path, placed: Placed, effort: Effort, clock: Clock, tell: Callable[[str], None]
) -> list[Sample]:
    law = TtsLaw(folder)
    tell("loading the voice")
    library = load(folder, placed.device)
    engines = {
        steps: VoxCpmEngine(library, clock=clock, diffusion_steps=steps, threads=placed.threads)
        for steps in effort.tts_steps
    }
    tell("voice: warming up")
    engines[min(engines)].warm_up()
    said: list[_Said] = []
    samples: list[Sample] = []
    for steps, engine in engines.items():
        lengths = _interleaved(effort)
        phrases: list[_Said] = []
        for number, patches in enumerate(lengths):
            tell(f"voice, {steps} diffusion steps: phrase {number + 1} of {len(lengths)}")
            text = phrase(effort.tts_words, effort.tts_words * (len(said) + number))
            phrases.append(_say(engine, text, patches or 1))
        said += phrases
        calibrating = [one for one, patches in zip(phrases, lengths, strict=True) if patches]
        checked = [one for one, patches in zip(phrases, lengths, strict=True) if not patches]
        samples += _patch_samples(law, steps, phrases, engine.sample_rate)
        samples.append(_first_audio_sample(law, steps, calibrating, checked))
    return [*_setup_samples(law, said), *samples]


def _interleaved(effort: Effort) -> list[int]:
    """Patches of the phrases, in an order in which a machine that gets slower or faster tilts no line through them; 0
    stands for a phrase whose first audio is to be predicted."""
    lengths = [*effort.tts_patches[1::2], *effort.tts_patches[::2]]
    apart = max(1, len(lengths) // max(1, effort.tts_checked))
    for number in range(effort.tts_checked):
        lengths.insert(number * (apart + 1) + 1, 0)
    return lengths


def _say(engine: VoxCpmEngine, text: str, patches: int) -> _Said:
    """Stream a phrase and leave it after so many patches."""
    setup, *rest = islice(engine.synthesise(text, lambda: False), 1 + patches)
    assert isinstance(setup, Setup)
    return _Said(setup, tuple(patch for patch in rest if isinstance(patch, Patch)))


def _setup_samples(law: TtsLaw, said: Sequence[_Said]) -> Iterator[Sample]:
    terms = law.setup(said[0].setup.units)
    note = f"{said[0].setup.units} text tokens"
    totals = tuple(_length_s(one.setup) for one in said)
    demands = of_setup(terms)
    yield Sample(ENGINE, "set-up", None, totals, tuple(terms.values()), SUM, note=note, demands=tuple(demands.values()))
    for part in said[0].setup.parts_ns:
        times = tuple(seconds(one.setup.parts_ns[part]) for one in said)
        yield Sample(ENGINE, "set-up", part, times, (terms[part],) if part in terms else (), demands=(demands[part],))


def _patch_samples(law: TtsLaw, steps: int, said: Sequence[_Said], rate_hz: int) -> Iterator[Sample]:
    kinds = {
        "first patch": [one.patches[0] for one in said],
        "later patch": [p for one in said for p in one.patches[1:]],
    }
    for kind, patches in kinds.items():
        if not patches:
            continue
        terms = law.patch(patches[0].forwards, first=kind == "first patch")
        stage = f"{kind}, {steps} steps"
        times = tuple(map(_length_s, patches))
        audio_s = len(patches[0].samples) / rate_hz
        note = f"{patches[0].forwards} forwards, {statistics.median(times) / audio_s:.2f} s per second of sound"
        demands = of_patch(terms, patches[0].forwards)
        asked = tuple(demands.values())
        yield Sample(ENGINE, stage, None, times, tuple(terms.values()), PATCH_LOOP, note=note, demands=asked)
        for part, term in terms.items():
            of_part = tuple(seconds(patch.parts_ns[part]) for patch in patches)
            yield Sample(ENGINE, stage, part, of_part, (term,), demands=(demands[part],))


def _first_audio_sample(law: TtsLaw, steps: int, calibrating: Sequence[_Said], checked: Sequence[_Said]) -> Sample:
    """Of the laws of small models it asks for the set-up and the first patch; its own is the line through longer
    phrases, of which there is none where the machine's speed changed too much between them."""
    fitted = theil_sen([point for one in calibrating for point in one.points_after_first])
    intercept_s, patch_s = fitted.intercept.value, fitted.slope.value
    first_audio_s = intercept_s + patch_s
    lengths = [len(one.patches) for one in calibrating]
    note = f"{intercept_s:.3f} s + {patch_s:.3f} s a patch, from phrases of {min(lengths)} to {max(lengths)} patches"
    return Sample(
        ENGINE,
        f"first audio, {steps} steps",
        None,
        tuple(one.first_audio_s for one in checked),
        law=INTERCEPT_AND_PATCH,
        stated_s=first_audio_s if first_audio_s > 0 else None,
        note=note,
        demands=_first_audio(law, calibrating[0]),
    )


def _first_audio(law: TtsLaw, said: _Said) -> tuple[Demand, ...]:
    forwards = said.patches[0].forwards
    of_first = of_patch(law.patch(forwards, first=True), forwards)
    return (*of_setup(law.setup(said.setup.units)).values(), *of_first.values())


def _length_s(timed: Setup | Patch) -> float:
    return seconds(timed.end_ns - timed.start_ns)
