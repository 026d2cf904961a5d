"""A word to the user when a turn fails: synthesised while all is well, so that the voice may be what failed."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.audio.output_track import OutputTrack
from agent.audio.playout import Playback
from agent.audio.resample import resample
from agent.audio.start_buffer import StartBuffer
from agent.tts.protocol import Patch, Setup
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Turn

TEXT = "Sorry, something went wrong. Please say that again."


@dataclass(frozen=True)
class Apology:
    """`TEXT` in the agent's voice: float32 (n,) mono at `rate_hz`."""

    samples: NDArray[np.float32]
    rate_hz: int

    @classmethod
    def of(cls, items: Iterable[Setup | Patch], rate_hz: int) -> "Apology":
        """From what a voice makes of `TEXT`."""
        pieces = [item.samples for item in items if isinstance(item, Patch)]
        return cls(np.concatenate([np.zeros(0, np.float32), *pieces]), rate_hz)


class Apologies:
    """Says the apology on a conversation's track."""

    def __init__(self, clock: Clock, track: OutputTrack):
        self._clock = clock
        self._track = track
        self._playback: Playback | None = None

    def stop(self) -> None:
        """Fall silent: the user speaks."""
        if self._playback is not None:
            self._playback.stop()

    async def say(self, apology: Apology | None, turn: Turn) -> None:
        """Play it and wait until it has been heard, or `stop`. The turn tells how much of it was."""
        if apology is None or not len(apology.samples):
            return
        samples = resample(apology.samples, apology.rate_hz, self._track.clock.rate_hz)
        self._playback = playback = Playback(self._clock, self._track, StartBuffer())
        playback.write(0, samples)
        playback.end_phrase(0)
        playback.finish()
        try:
            await playback.played()
        finally:
            playback.stop()
            heard = (playback.heard(0) or 0.0) * len(samples)
            turn.attributes[v.TURN_APOLOGY_S] = heard / self._track.clock.rate_hz
            self._playback = None
