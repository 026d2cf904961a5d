"""What the conversation asks of a speech recogniser."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from profiling.trace.timeline import Attribute

ShouldStop = Callable[[], bool]
TAIL_S = 0.16  # silence after the last voiced sample that the recogniser is given


@dataclass(frozen=True)
class Transcript:
    """The text of an utterance so far, and what the step that made it cost.

    `encoded_s` is the seconds of audio that the step put through the encoder. `tokens` measures what the step's
    decoding did: the positions that an attention decoder evaluated, those of a draft included, or the tokens that a
    transducer emitted, without blanks. `passes_ns` are start and end of each pass over new sound (a chunk of a
    streaming model) and `parts_ns` durations by part, one entry per pass; both are empty where an engine does not tell.
    """

    text: str
    start_ns: int
    end_ns: int
    encoded_s: float
    tokens: int
    passes_ns: tuple[tuple[int, int], ...] = ()
    parts_ns: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


class AsrStream(Protocol):
    """The state of one utterance."""

    def step(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        """Take the next samples (16 kHz mono float32, any length) and return the transcript so far."""
        ...

    def finalize(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        """Take the last samples and return the final transcript: what is left of an incomplete chunk is flushed with
        silence. The stream is finished afterwards."""
        ...


class AsrEngine(Protocol):
    """A loaded recogniser. One step at a time per engine; streams may be interleaved.

    `attributes` describe it on its spans. `needs_whole_chunks` says that a streaming model computes nothing of a chunk
    before all of it has come; otherwise the chunk is only the cadence of partial transcripts. `chunks_ms` are the
    sizes to choose from.
    """

    model: str
    attributes: Mapping[str, Attribute]
    needs_whole_chunks: bool
    chunks_ms: tuple[int, ...]

    def chunk_end(self, sample: int) -> int:
        """The first end of a chunk at or after `sample`; both are counts of samples from a stream's beginning."""
        ...

    def with_chunk(self, chunk_ms: int) -> "AsrEngine":
        """Another engine on the same loaded model. Computes nothing and may be called while a stream of this one is
        heard. Raises TurnscopeError for a chunk that the model does not have."""
        ...

    def open(self) -> AsrStream:
        """A new stream. Computes nothing: what a model needs for it is made in the first step."""
        ...

    def warm_up(self) -> None:
        """Run the streaming path once, so that the first utterance costs what the others do."""
        ...
