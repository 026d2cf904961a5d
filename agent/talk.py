"""A conversation over a sound device, from its first word to its last, also when the device comes and goes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from agent.audio.edge import Edge
from agent.audio.microphone import DeviceGone
from agent.audio.sample_clock import Packet
from agent.both_sides import BothSides, Recorder, Tape
from agent.conversation import Conversation
from agent.engines import Engines
from agent.events import Event
from agent.recording import ScenarioRecorder
from agent.settings import Settings
from profiling.trace.clock import Clock


@dataclass(frozen=True)
class DeviceLost:
    """The conversation waits for a device; the turn that was open has ended. `reason` is a sentence."""

    reason: str


@dataclass(frozen=True)
class DeviceBack:
    """The conversation goes on, with the same history."""


class DeviceEdge(Edge, Protocol):
    """An edge whose packets may end with DeviceGone, and go on with the same sample clocks once the device is back."""

    async def wait_for_device(self) -> None: ...


class Talk:
    """The user talks through an open edge; `observe` gets all that happens. Both sides go to a `recorder`, the user's
    to a `scenario`, where there is one."""

    def __init__(
        self,
        edge: DeviceEdge,
        engines: Engines,
        settings: Settings,
        clock: Clock,
        observe: Callable[[Event | DeviceLost | DeviceBack], None],
        recorder: Recorder | None = None,
        scenario: ScenarioRecorder | None = None,
    ):
        self._edge = edge
        self._engines = engines
        self._settings = settings
        self._clock = clock
        self._tell = observe
        self._sides = BothSides(edge.capture, Tape(edge.track), recorder) if recorder else None
        self._scenario = scenario
        self._conversation: Conversation | None = None
        self._stopped = asyncio.Event()

    @property
    def engines(self) -> Engines:
        """What the next turn will be answered with."""
        return self._engines

    @property
    def settings(self) -> Settings:
        return self._settings

    def change(self, engines: Engines, settings: Settings) -> None:
        """From the next turn that opens on."""
        self._engines, self._settings = engines, settings
        if self._conversation is not None:
            self._conversation.change(engines, settings)

    def stop(self) -> None:
        """End the conversation now, as an interrupted one ends."""
        self._stopped.set()

    async def run(self) -> None:
        """Until `stop`, or the edge has no more packets. Raises what `observe` raised. Every turn that was opened is
        closed, however it ends."""
        waits = [asyncio.ensure_future(self._stopped.wait()), asyncio.ensure_future(self._converse())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
            if self._scenario is not None:
                self._scenario.close()
        with suppress(asyncio.CancelledError):
            waits[1].result()

    async def _converse(self) -> None:
        while True:
            self._conversation = Conversation(
                self._engines,
                self._settings,
                self._clock,
                self._edge.capture,
                self._edge.track,
                self._observe,
                earlier=self._conversation,
            )
            try:
                return await self._conversation.run(self._packets())
            except DeviceGone as gone:
                self._tell(DeviceLost(str(gone)))
            await self._edge.wait_for_device()
            self._tell(DeviceBack())

    async def _packets(self) -> AsyncIterator[Packet]:
        async for packet in self._edge.packets():
            if self._sides is not None:
                self._sides.add(packet)
            if self._scenario is not None:
                self._scenario.packet(packet, self._edge.capture)
            yield packet

    def _observe(self, event: Event) -> None:
        if self._scenario is not None:
            self._scenario.observe(event)
        self._tell(event)
