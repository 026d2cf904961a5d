"""The reply on its way out: audio laid on the output's sample clock, with a start buffer, underruns counted, and a
clean stop."""

import asyncio
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.audio.pace import sleep_until
from agent.audio.sample_clock import SampleClock
from agent.audio.wav import first_audible_sample
from profiling.trace.clock import Clock


class OutputTrack:
    """What leaves the edge: pieces of audio at sample positions, silence between them. An edge reads it as its clock
    runs."""

    def __init__(self, clock: SampleClock):
        self.clock = clock
        self._pieces: deque[tuple[int, NDArray[np.float32]]] = deque()

    def lay(self, start_sample: int, samples: NDArray[np.float32]) -> None:
        """Pieces are laid in order and do not overlap."""
        self._pieces.append((start_sample, samples))

    def cut(self, sample: int) -> None:
        """Nothing at or after this sample leaves any more."""
        while self._pieces and self._pieces[-1][0] + len(self._pieces[-1][1]) > sample:
            start, samples = self._pieces.pop()
            if start < sample:
                self._pieces.append((start, samples[: sample - start]))
                return

    def read(self, start_sample: int, count: int) -> NDArray[np.float32]:
        """The samples `start_sample` to `start_sample + count`; reads go forward and forget what lies behind."""
        out = np.zeros(count, np.float32)
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start_sample:
            self._pieces.popleft()
        for start, samples in self._pieces:
            if start >= start_sample + count:
                break
            first, last = max(start, start_sample), min(start + len(samples), start_sample + count)
            out[first - start_sample : last - start_sample] = samples[first - start : last - start]
        return out


class StartBuffer:
    """How much audio must be ready before a reply starts to play, chosen from the measured speed of synthesis.

    Playback may start when what is ready outlasts the making of the next patch, so the buffer is the 95th percentile
    of the recent patches' compute times with a margin of a quarter.
    """

    MARGIN = 1.25
    UNMEASURED_S = 0.1

    def __init__(self) -> None:
        self._patch_s: deque[float] = deque(maxlen=64)

    def observe(self, patch_s: float) -> None:
        """The compute time of one patch, in seconds."""
        self._patch_s.append(patch_s)

    @property
    def needed_s(self) -> float:
        if not self._patch_s:
            return self.UNMEASURED_S
        return float(np.percentile(list(self._patch_s), 95)) * self.MARGIN


@dataclass
class _Phrase:
    """Where a phrase's audio lies: pieces of (start sample, sample count), and whether all of it has arrived."""

    pieces: list[tuple[int, int]]
    complete: bool = False


class Playback:
    """One reply. Phrases are written in order; playing starts when the start buffer is full, or when all has been
    written."""

    def __init__(self, clock: Clock, track: OutputTrack, buffer: StartBuffer):
        self._clock = clock
        self._track = track
        self._rate_hz = track.clock.rate_hz
        self._needed_s = buffer.needed_s
        self._waiting: list[tuple[int, NDArray[np.float32]]] = []
        self._phrases: dict[int, _Phrase] = {}
        self._unheard: NDArray[np.float32] | None = np.zeros(0, np.float32)
        self._next_sample = 0
        self._stopped = asyncio.Event()
        self.started_ns: int | None = None
        self.first_audio_ns: int | None = None
        self.underruns = 0
        self._underrun_samples = 0
        self._audio_samples = 0

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def needed_s(self) -> float:
        """The start buffer chosen for this reply."""
        return self._needed_s

    @property
    def underrun_s(self) -> float:
        return self._underrun_samples / self._rate_hz

    def written_s(self, phrase: int) -> float:
        """Seconds of audio laid or waiting for this phrase."""
        laid = sum(count for _, count in self._phrases[phrase].pieces) if phrase in self._phrases else 0
        waiting = sum(len(samples) for number, samples in self._waiting if number == phrase)
        return (laid + waiting) / self._rate_hz

    @property
    def end_ns(self) -> int | None:
        """When the last sample laid so far has left; None before playing starts."""
        return None if self.started_ns is None else self._track.clock.ns_of(self._next_sample)

    def write(self, phrase: int, samples: NDArray[np.float32]) -> None:
        """Take the next piece of the reply's audio: float32 (n,) at the track's rate. Dropped after `stop`."""
        if self.stopped:
            return
        self._audio_samples += len(samples)
        self._phrases.setdefault(phrase, _Phrase([]))
        if self.started_ns is not None:
            self._lay(phrase, samples, self._now_sample())
            return
        self._waiting.append((phrase, samples))
        if self._audio_samples >= self._needed_s * self._rate_hz:
            self._start()

    def end_phrase(self, phrase: int) -> None:
        """All of the phrase's audio has been written."""
        self._phrases.setdefault(phrase, _Phrase([])).complete = True

    def finish(self) -> None:
        """The reply is complete: play what there is, however little."""
        if self.started_ns is None and self._waiting and not self.stopped:
            self._start()

    def stop(self) -> None:
        """Fall silent now."""
        now_sample = self._now_sample()
        self._track.cut(now_sample)
        self._next_sample = min(self._next_sample, now_sample)
        if self.first_audio_ns is not None and self.first_audio_ns >= self._track.clock.ns_of(now_sample):
            self.first_audio_ns = None
        self._stopped.set()

    async def played(self) -> None:
        """Wait until everything written has left, or `stop`."""
        end_ns = self.end_ns
        if end_ns is None or self.stopped:
            return
        waits = [asyncio.ensure_future(sleep_until(self._clock, end_ns)), asyncio.ensure_future(self._stopped.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def heard(self, phrase: int, length_s: float | None = None) -> float | None:
        """The fraction of the phrase's audio that has left by now (or by `stop`), of `length_s` seconds where more
        are to come than were written. None when the phrase has no audio."""
        known = self._phrases.get(phrase)
        if known is None or not known.pieces:
            return None
        now_sample = self._now_sample()
        limit = min(now_sample, self._next_sample)
        total = max(sum(count for _, count in known.pieces), round((length_s or 0) * self._rate_hz))
        left = sum(max(0, min(count, limit - start)) for start, count in known.pieces)
        return left / total

    def is_complete(self, phrase: int) -> bool:
        return phrase in self._phrases and self._phrases[phrase].complete

    def _now_sample(self) -> int:
        """The next sample that can still leave."""
        return self._track.clock.sample_at(self._clock.now_ns())

    def _start(self) -> None:
        self._next_sample = start = self._now_sample()
        self.started_ns = self._track.clock.ns_of(start)
        waiting, self._waiting = self._waiting, []
        for phrase, samples in waiting:
            self._lay(phrase, samples, start)

    def _lay(self, phrase: int, samples: NDArray[np.float32], now_sample: int) -> None:
        late = now_sample - self._next_sample
        if late > 0:
            self.underruns += 1
            self._underrun_samples += late
            self._next_sample += late
            if self._unheard is not None:
                self._unheard = np.concatenate([self._unheard, np.zeros(late, np.float32)])
        self._track.lay(self._next_sample, samples)
        self._phrases[phrase].pieces.append((self._next_sample, len(samples)))
        self._find_first_audio(samples)
        self._next_sample += len(samples)

    def _find_first_audio(self, samples: NDArray[np.float32]) -> None:
        if self._unheard is None:
            return
        reply_so_far = np.concatenate([self._unheard, samples])
        audible = first_audible_sample(reply_so_far, self._rate_hz)
        if audible is None:
            self._unheard = reply_so_far
        else:
            self.first_audio_ns = self._track.clock.ns_of(self._next_sample - len(self._unheard) + audible)
            self._unheard = None
