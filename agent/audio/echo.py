"""The agent's own voice taken out of the microphone: WebRTC's echo canceller (AEC3), fed by the two devices' clocks."""

import numpy as np
from numpy.typing import NDArray
from pywebrtc_audio import AudioProcessor

from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleTimes
from profiling.trace.clock import NS_PER_S

Samples = NDArray[np.float32]

DELAY_SAMPLES = 128  # by which AEC3's output lags its input: 8 ms at 16 kHz
_BLOCK = 160  # it works on 10 ms
_EARLY_NS = NS_PER_S // 100  # the far sound is given this much ahead: one that is late cannot be cancelled
_SLIP, _JUMP = 16, 160  # samples that the alignment may be off before it slips by one a block, and before it jumps
_KEPT = 4 * CAPTURE_RATE_HZ


class EchoCanceller:
    """Cancels what left the loudspeaker from what the microphone captured. No noise suppression, no gain control: the
    recogniser was trained on untouched speech.

    `played` takes what the loudspeaker's clock counts, as soon as it is known; `clean` takes the capture's packets, in
    order and without a gap. Which far sound left while a near block was captured follows from the two clocks, so no
    delay has to be told or guessed but the room's, which AEC3 finds by itself. Use one for one stretch of capture.
    """

    def __init__(self, capture: SampleTimes, loudspeaker: SampleTimes):
        self._capture = capture
        self._loudspeaker = loudspeaker
        self._processor = AudioProcessor(sample_rate=CAPTURE_RATE_HZ, echo_cancellation=True)
        self._far = _Far(loudspeaker.rate_hz)
        self._far_next: int | None = None
        self._near = np.zeros(0, np.float32)
        self._next: int | None = None  # the capture's sample of `_near`'s first

    def played(self, start_sample: int, samples: Samples) -> None:
        """What leaves, or has left, the loudspeaker: float32 (n,), numbered and paced by its clock."""
        self._far.add(start_sample, _finite(samples))

    def clean(self, packet: Packet) -> Packet:
        """The near sound without the echo, as far as it is known: whole blocks of 10 ms, and 8 ms late, which the
        packet's number allows for. What is no number (NaN, infinity) counts as silence."""
        if self._next is None:
            self._next = packet.start_sample
        self._near = np.concatenate([self._near, _finite(packet.samples)])
        start = self._next - DELAY_SAMPLES
        cleaned: list[Samples] = []
        while len(self._near) >= _BLOCK:
            block, self._near = self._near[:_BLOCK], self._near[_BLOCK:]
            cleaned.append(np.asarray(self._processor.process(block, self._far_of(self._next)), np.float32))
            self._next += _BLOCK
        return Packet(start, np.concatenate(cleaned) if cleaned else np.zeros(0, np.float32))

    def _far_of(self, near_sample: int) -> Samples:
        """The far sound that left as the near block that begins with this sample was captured."""
        left = self._loudspeaker.sample_at(self._capture.ns_of(near_sample) + _EARLY_NS)
        wanted = left * CAPTURE_RATE_HZ // self._loudspeaker.rate_hz
        start = wanted if self._far_next is None else self._far_next
        if abs(wanted - start) > _JUMP:
            start = wanted
        elif abs(wanted - start) > _SLIP:
            start += 1 if wanted > start else -1
        self._far_next = start + _BLOCK
        return self._far.read(start, _BLOCK)


class _Far:
    """The last seconds of the far sound at 16 kHz, numbered by the loudspeaker's time."""

    def __init__(self, rate_hz: int):
        self._rate_hz = rate_hz
        self._expected: int | None = None
        self._resampler = Resampler(rate_hz, CAPTURE_RATE_HZ, "LQ")
        self._start = 0
        self._samples = np.zeros(0, np.float32)

    def add(self, start: int, samples: Samples) -> None:
        if start != self._expected:  # another stretch begins
            self._resampler = Resampler(self._rate_hz, CAPTURE_RATE_HZ, "LQ")
            self._start = start * CAPTURE_RATE_HZ // self._rate_hz
            self._samples = np.zeros(0, np.float32)
        self._expected = start + len(samples)
        self._samples = np.concatenate([self._samples, self._resampler.push(samples)])
        if (surplus := len(self._samples) - _KEPT) > 0:
            self._start, self._samples = self._start + surplus, self._samples[surplus:]

    def read(self, start: int, count: int) -> Samples:
        out = np.zeros(count, np.float32)
        first, last = max(start, self._start), min(start + count, self._start + len(self._samples))
        if first < last:
            out[first - start : last - start] = self._samples[first - self._start : last - self._start]
        return out


def _finite(samples: Samples) -> Samples:
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0), -1, 1)
