"""A microphone's sound on its way in: converted to 16 kHz, freed of echo, cut into packets."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from agent.audio.echo import EchoCanceller
from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet

PACKET_SAMPLES = CAPTURE_RATE_HZ // 50


class Intake:
    """One stretch of capture without a gap, whose first sample is the capture's number `start`."""

    def __init__(self, start: int, rate_hz: int, canceller: EchoCanceller | None):
        self._resampler = Resampler(rate_hz, CAPTURE_RATE_HZ, "LQ")
        self._canceller = canceller
        self._start = start  # of what comes out of the resampler next
        self._waiting: Packet | None = None

    def push(self, samples: NDArray[np.float32]) -> Iterator[Packet]:
        """Take mono sound at the device's rate, of any length; give the packets of 20 ms that it completes."""
        converted = Packet(self._start, self._resampler.push(samples))
        self._start = converted.end_sample
        new = self._canceller.clean(converted) if self._canceller else converted
        waiting = self._waiting
        start = new.start_sample if waiting is None else waiting.start_sample
        rest = new.samples if waiting is None else np.concatenate([waiting.samples, new.samples])
        while len(rest) >= PACKET_SAMPLES:
            yield Packet(start, rest[:PACKET_SAMPLES])
            start, rest = start + PACKET_SAMPLES, rest[PACKET_SAMPLES:]
        self._waiting = Packet(start, rest)
