"""The reply on its way out: audio on the output's sample clock, underruns counted, with pauses and a clean stop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray

from agent.audio.laid import Laid, Opening, Sound, scaled, split
from agent.audio.output_track import OutputTrack
from agent.audio.pace import sleep_until
from agent.audio.start_buffer import StartBuffer
from profiling.trace.clock import NS_PER_S, Clock

P = ParamSpec("P")

FADE_S = 0.005  # around a pause and before a stop, so that neither clicks


@dataclass
class Pause:
    """Sound was held back from `start_ns` until `end_ns`; `why` says what the user's sound turned out to be."""

    start_ns: int
    end_ns: int | None = None
    why: str = ""


def _undisturbed(method: Callable[Concatenate["Playback", P], None]) -> Callable[Concatenate["Playback", P], None]:
    """While sound is laid or taken back, no edge reads the track: what has left stays left, and leaves once."""

    @wraps(method)
    def locked(self: "Playback", *args: P.args, **kwargs: P.kwargs) -> None:
        with self._track.lock:
            method(self, *args, **kwargs)

    return locked


class Playback:
    """One reply. Phrases are written in order; playing starts when the start buffer is full, or when all has been
    written. A reply that is paused goes on where it stopped."""

    def __init__(self, clock: Clock, track: OutputTrack, buffer: StartBuffer):
        self._clock = clock
        self._track = track
        self._rate_hz = track.clock.rate_hz
        self._needed_s = buffer.needed_s
        self._waiting: list[Sound] = []
        self._laid = Laid()
        self._written: dict[int, int] = {}
        self._complete: set[int] = set()
        self._finished = False
        self._opening = Opening(self._rate_hz)
        self._next_sample = 0
        self._stopped = False
        self._paused = False
        self._changed = asyncio.Event()
        self.pauses: list[Pause] = []
        self.underruns = 0
        self._underrun_samples = 0

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def needed_s(self) -> float:
        """The start buffer chosen for this reply."""
        return self._needed_s

    @property
    def underrun_s(self) -> float:
        return self._underrun_samples / self._rate_hz

    @property
    def paused_s(self) -> float:
        """Seconds in which sound was held back, of pauses that have ended."""
        return sum(pause.end_ns - pause.start_ns for pause in self.pauses if pause.end_ns is not None) / NS_PER_S

    @property
    def started_ns(self) -> int | None:
        """When the first sample leaves; None before playing starts."""
        start = self._laid.start
        return None if start is None else self._track.clock.ns_of(start)

    @property
    def first_audio_ns(self) -> int | None:
        """When the first audible sample leaves; None while it is not laid, or when it was taken back."""
        sample = self._first_audio
        return None if sample is None else self._track.clock.ns_of(sample)

    @property
    def audible(self) -> bool:
        """Whether the user has heard the reply, or will whatever happens."""
        sample = self._first_audio
        return sample is not None and sample < self._track.next_sample(self._clock.now_ns())

    @property
    def end_ns(self) -> int | None:
        """When the last sample laid so far has left; None before playing starts."""
        return None if self._laid.start is None else self._track.clock.ns_of(self._next_sample)

    @property
    def ending(self) -> bool:
        """Whether all of the reply that is left to play is no longer than a fade."""
        return self._finished and not self._waiting and self._next_sample <= self._now_sample() + self._fade_samples

    def written_s(self, phrase: int) -> float:
        """Seconds of audio written for this phrase."""
        return self._written.get(phrase, 0) / self._rate_hz

    @_undisturbed
    def write(self, phrase: int, samples: NDArray[np.float32]) -> None:
        """Take the next piece of the reply's audio: float32 (n,) at the track's rate. Dropped after `stop`."""
        if self._stopped:
            return
        self._written[phrase] = self._written.get(phrase, 0) + len(samples)
        self._opening.push(samples)
        self._waiting.append((phrase, samples))
        self._play(self._now_sample())

    def end_phrase(self, phrase: int) -> None:
        """All of the phrase's audio has been written."""
        self._complete.add(phrase)

    @_undisturbed
    def finish(self) -> None:
        """The reply is complete: play what there is, however little."""
        self._finished = True
        if not self._stopped:
            self._play(self._now_sample())

    @_undisturbed
    def pause(self) -> None:
        """Take back what has not left; nothing more leaves until `resume`. A reply that is ending plays to its end."""
        if self._stopped or self._paused or self.ending:
            return
        self._paused, sample = True, self._now_sample()
        started = self._laid.start is not None
        self._count_underrun(sample)
        self._waiting = [*self._take_back(sample), *self._waiting]
        if started:
            self.pauses.append(Pause(self._track.clock.ns_of(self._next_sample)))
        self._play(sample)
        self._changed.set()

    @_undisturbed
    def resume(self, why: str = "") -> None:
        """Go on where `pause` stopped; `why` is kept with the pause, if sound was held back."""
        if self._stopped or not self._paused:
            return
        self._paused = False
        sample = self._now_sample()
        if self._laid.start is not None:
            first, rest = split(self._waiting, self._fade_samples)
            self._waiting = [*scaled(first, 0.0, 1.0), *rest]
            self._next_sample = sample
        self._end_pause(self._track.clock.ns_of(sample), why)
        self._play(sample)
        self._changed.set()

    @_undisturbed
    def stop(self, why: str = "") -> None:
        """Fall silent now and for good; `why` is kept with a pause that lasts."""
        if self._stopped:
            return
        if not self._paused:
            self._take_back(self._now_sample())
        self._waiting = []
        self._stopped, self._paused = True, False
        self._end_pause(self._clock.now_ns(), why)
        self._changed.set()

    async def played(self) -> None:
        """Wait until everything written has left, or `stop`."""
        while not self._stopped and (self._waiting or (self.end_ns or 0) > self._clock.now_ns()):
            self._changed.clear()
            waits: list[asyncio.Task[object]] = [asyncio.create_task(self._changed.wait())]
            if not self._paused and self.end_ns is not None:
                waits.append(asyncio.create_task(sleep_until(self._clock, self.end_ns)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def heard(self, phrase: int, length_s: float | None = None) -> float | None:
        """The fraction of the phrase's audio that has left by now, or that leaves at all after `stop`; of `length_s`
        seconds where more are to come than were written. None when none of it was laid."""
        now_sample = self._track.clock.sample_at(self._clock.now_ns())
        left = self._laid.left(phrase, max(now_sample, self._next_sample) if self._stopped else now_sample)
        return None if left is None else left / max(self._written[phrase], round((length_s or 0) * self._rate_hz))

    def is_complete(self, phrase: int) -> bool:
        return phrase in self._complete

    @property
    def _fade_samples(self) -> int:
        return round(FADE_S * self._rate_hz)

    @property
    def _first_audio(self) -> int | None:
        audible_at = self._opening.audible_at
        return None if audible_at is None else self._laid.sample_of(audible_at)

    def _now_sample(self) -> int:
        return self._track.next_sample(self._clock.now_ns())

    def _play(self, now_sample: int) -> None:
        """Lay what waits, once it is time to start and unless it is held back."""
        if not self._waiting:
            return
        if self._laid.start is None:
            if not self._finished and sum(self._written.values()) < self._needed_s * self._rate_hz:
                return
            self._next_sample = now_sample
        if self._paused:
            if not self.pauses or self.pauses[-1].end_ns is not None:
                self.pauses.append(Pause(self._track.clock.ns_of(now_sample)))
            return
        self._count_underrun(now_sample)
        for sound in self._waiting:
            self._lay(sound)
        self._waiting = []

    def _lay(self, sound: Sound) -> None:
        self._track.lay(self._next_sample, sound[1])
        self._laid.add(self._next_sample, sound)
        self._next_sample += len(sound[1])

    def _take_back(self, sample: int) -> list[Sound]:
        """Cut the output at the sample and return what was to come after it. A reply that is being heard fades out
        first."""
        fades = self._first_audio is not None and self._first_audio < sample
        back = self._laid.take_back(sample)
        self._track.cut(sample)
        self._next_sample = min(self._next_sample, sample)
        first, rest = split(back, self._fade_samples if fades else 0)
        for sound in scaled(first, 1.0, 0.0):
            self._lay(sound)
        return rest

    def _count_underrun(self, now_sample: int) -> None:
        """Sound that should have followed was not there by now."""
        late = now_sample - self._next_sample
        if self._laid.start is not None and late > 0:
            self.underruns += 1
            self._underrun_samples += late
            self._next_sample = now_sample

    def _end_pause(self, at_ns: int, why: str) -> None:
        if self.pauses and self.pauses[-1].end_ns is None:
            last = self.pauses[-1]
            last.end_ns, last.why = max(last.start_ns, at_ns), why
