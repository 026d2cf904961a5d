"""What the conversation asks of a speech recogniser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ShouldStop = Callable[[], bool]


@dataclass(frozen=True)
class Transcript:
    """The text of an utterance so far, and what the step that made it cost.

    `encoded_s` is the seconds of audio that the step put through the encoder; `tokens` the decoder positions it
    evaluated.
    """

    text: str
    start_ns: int
    end_ns: int
    encoded_s: float
    tokens: int


class AsrStream(Protocol):
    """The state of one utterance."""

    def step(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        """Take the next samples (16 kHz mono float32, any length) and return the transcript so far."""
        ...

    def finalize(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        """Take the last samples and return the final transcript. The stream is finished afterwards."""
        ...


class AsrEngine(Protocol):
    """A loaded recogniser. One step at a time per engine; streams may be interleaved."""

    model: str

    def open(self) -> AsrStream: ...

    def warm_up(self) -> None:
        """Run the streaming path once, so that the first utterance costs what the others do."""
        ...
