"""What is known of one utterance while it is heard: its audio, its recognition so far, and its turn's timeline."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.asr.protocol import AsrStream, Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.engines import Engines
from agent.listening.end_of_turn import TextEnd, text_end
from agent.listening.endpoint_trail import EndpointTrail
from agent.listening.smart_turn import HEARD_S
from agent.settings import Settings
from agent.worker import Job
from profiling.trace.timeline import Turn

Samples = NDArray[np.float32]
VOICED_TAIL_S = 0.06  # the voice detector hears speech for at least so long after its end


@dataclass(frozen=True)
class Filled:
    """A chunk that has to be heard to its end: the utterance's length there, and when it was."""

    length: int
    at_ns: asyncio.Future[int]


@dataclass
class Utterance:
    """`engines` and `settings` are those that it was begun with, and that its turn keeps. `trail` puts on its turn what
    the endpoint does. `decision_step` and `decided_ns` are the end-of-turn decision.

    Audio counts from `start_sample` (speech start less the lead-in) on; `taken` samples of it have been given to
    the ASR stream, and `partial_length` of them are what `partial_text` is the transcript of."""

    turn: Turn
    engines: Engines
    settings: Settings
    stream: AsrStream
    trail: EndpointTrail
    start_sample: int
    audio: list[Samples] = field(default_factory=list[Samples])
    length: int = 0
    taken: int = 0
    next_step: int = 0
    partials: int = 0
    skipped: int = 0
    encoded_s: float = 0.0
    chunks: int = 0
    last_voiced_sample: int = 0
    partial: Job[Transcript] | None = None
    partial_text: str = ""
    partial_length: int = 0
    decision_step: int | None = None
    decided_ns: int = 0
    filled: Filled | None = None

    def text_end(self, last_voiced_sample: int) -> TextEnd:
        """How the words up to there end; unknown while the last of them have not been recognised."""
        heard = self.start_sample + self.partial_length + VOICED_TAIL_S * CAPTURE_RATE_HZ
        return text_end(self.partial_text) if heard >= last_voiced_sample else TextEnd.UNKNOWN

    def append(self, samples: Samples) -> None:
        self.audio.append(samples)
        self.length += len(samples)

    def tail(self, seconds: float) -> Samples:
        """The last `seconds` of the audio, at most `HEARD_S`, or all of it."""
        return self._slice(max(0, self.length - round(seconds * CAPTURE_RATE_HZ)), self.length)

    def take(self, end: int) -> Samples:
        """The samples not yet given to the stream, up to `end` (counted from the utterance's start)."""
        end = min(end, self.length)
        samples = self._slice(self.taken, max(self.taken, end))
        self.taken = max(self.taken, end)
        self._forget(min(self.taken, self.length - round(HEARD_S * CAPTURE_RATE_HZ)))
        return samples

    def _slice(self, start: int, end: int) -> Samples:
        kept = np.concatenate(self.audio or [np.zeros(0, np.float32)])
        first = self.length - len(kept)
        return kept[start - first : end - first]

    def _forget(self, before: int) -> None:
        """Drop what nobody will ask for again, so that a long utterance costs no more than a short one."""
        first = self.length - sum(map(len, self.audio))
        while self.audio and first + len(self.audio[0]) <= before:
            first += len(self.audio.pop(0))
