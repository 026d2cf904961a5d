"""A sound device in virtual time: a scenario's user speaks into it, and what is played is kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.audio.microphone import DeviceGone
from agent.audio.output_track import OutputTrack
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock
from agent.events import Event
from agent.replay import ScenarioPlayer
from agent.scenario import Scenario
from profiling.trace.clock import Clock

READ_AHEAD_S = 0.04
AWAY_S = 3.0


class FakeDevice:
    """A `DeviceEdge`. Give it the conversation's events, which its user goes by. It is unplugged at each of the times
    `lost_at_s` after it was made, for `AWAY_S`."""

    def __init__(self, scenario: Scenario, clock: Clock, rate_hz: int, lost_at_s: Sequence[float] = ()):
        now_ns = clock.now_ns()
        self.capture = SampleClock(now_ns, CAPTURE_RATE_HZ)
        self.track = OutputTrack(SampleClock(now_ns, rate_hz))
        self.played: list[NDArray[np.float32]] = []
        self._clock = clock
        self._next_out = 0
        self._lost_at = [now_ns + round(at_s * 1e9) for at_s in lost_at_s]
        self._player = ScenarioPlayer(scenario, clock, self.capture)
        self._packets = self._player.packets()

    def observe(self, event: Event) -> None:
        self._player.observe(event)

    async def packets(self) -> AsyncIterator[Packet]:
        async for packet in self._packets:
            now_ns = self._clock.now_ns()
            if self._lost_at and now_ns >= self._lost_at[0]:
                self._lost_at.pop(0)
                raise DeviceGone("The sound device 'fake' is gone: plug it in again, or choose another.")
            self._play(self.track.clock.sample_at(now_ns) + round(READ_AHEAD_S * self.track.clock.rate_hz))
            yield packet

    async def wait_for_device(self) -> None:
        await asyncio.sleep(AWAY_S)
        self._play(self.track.clock.sample_at(self._clock.now_ns()))

    def _play(self, until: int) -> None:
        self.played.append(self.track.read(self._next_out, until - self._next_out))
        self._next_out = until
