"""What the conversation asks of a speech synthesiser."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from profiling.trace.timeline import Attribute

ShouldStop = Callable[[], bool]


@dataclass(frozen=True)
class Setup:
    """All that happens before a phrase's first patch.

    `parts_ns` are the durations by part, in order; they sum to at most `end_ns - start_ns`. `units` counts what
    set-up grows with (phonemes, text tokens). `word_ends` has one entry per whitespace-separated word of the phrase:
    the fraction (0 to 1) of the phrase's audio after which that word has been spoken. `audio_s` is the length of that
    audio, None while unknown.
    """

    start_ns: int
    end_ns: int
    parts_ns: Mapping[str, int]
    units: int
    word_ends: tuple[float, ...]
    audio_s: float | None = None


@dataclass(frozen=True)
class Patch:
    """A piece of the phrase's audio: float32 (n,) in [-1, 1] at the engine's sample rate.

    `parts_ns` are durations by part, in order; they sum to at most `end_ns - start_ns`, and every patch of an engine
    has the same parts. `forwards` counts the forward passes of a diffusion module. The time for which the consumer
    holds the generator is no patch's.
    """

    samples: NDArray[np.float32]
    start_ns: int
    end_ns: int
    parts_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    forwards: int = 0


class TtsEngine(Protocol):
    """A loaded voice. One phrase at a time. `attributes` describe it on its spans."""

    model: str
    attributes: Mapping[str, Attribute]
    sample_rate: int

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        """Yield one Setup, then the phrase's Patches in order; stop early when `should_stop` turns true. `text` is
        speakable text.

        A text with nothing to say yields a Setup and no patch."""
        ...

    def warm_up(self) -> None: ...


@runtime_checkable
class DiffusionTts(TtsEngine, Protocol):
    """A voice that makes each patch in a number of diffusion steps."""

    diffusion_steps: int

    def with_diffusion_steps(self, steps: int) -> TtsEngine:
        """Another engine on the same loaded model. Computes nothing and may be called while this one speaks. Raises
        TurnscopeError for a number of steps that is not possible."""
        ...
