"""How studies stream a voice: phrases that end, and by pieces that belong together."""

from collections.abc import Iterator, Mapping
from itertools import islice

from agent.tts.protocol import Patch, Setup, ShouldStop, TtsEngine
from profiling.calibration import FirstAudio
from profiling.trace.clock import seconds
from profiling.trace.timeline import Attribute

_SLOWEST, _MORE_S = 8, 1.0  # characters a second, and seconds: nobody takes longer to say a text


class Ending:
    """A `TtsEngine`: another one whose phrases end after as much sound as their text can take. Models with random
    weights find no end by themselves."""

    def __init__(self, engine: TtsEngine) -> None:
        self.model = engine.model
        self.attributes: Mapping[str, Attribute] = engine.attributes
        self.sample_rate = engine.sample_rate
        self._engine = engine

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        left = (len(text) / _SLOWEST + _MORE_S) * self.sample_rate
        for item in self._engine.synthesise(text, should_stop):
            yield item
            if isinstance(item, Patch):
                left -= len(item.samples)
            if left <= 0:
                return

    def warm_up(self) -> None:
        self._engine.warm_up()


def first_audio(engine: TtsEngine, text: str) -> FirstAudio:
    """A phrase that is left after its first patch; it is none to fit a law to."""
    setup, *patches = islice(engine.synthesise(text, lambda: False), 2)
    assert isinstance(setup, Setup)
    setup_s = seconds(setup.end_ns - setup.start_ns)
    made = [patch for patch in patches if isinstance(patch, Patch)]
    return FirstAudio(
        units=setup.units,
        setup_s=setup_s,
        patch_ends_s=tuple(setup_s + seconds(patch.end_ns - patch.start_ns) for patch in made),
        audio_ends_s=tuple(len(patch.samples) / engine.sample_rate for patch in made),
        checks=True,
    )
