"""Hands a call's turns to its run folder, each when its page has said when it was heard, or would have."""

import asyncio
from collections import deque

from agent.events import Event, TurnEnded
from agent.web.heard import heard_ns
from agent.web.service import CallRun

HEARD_WITHIN_S = 1.0  # of the end of a turn


class TurnWriter:
    def __init__(self, run: CallRun):
        self._run = run
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()

    def observe(self, event: Event) -> None:
        self._events.append(event)
        self._changed.set()

    def heard(self) -> None:
        """A turn has been told when it was heard."""
        self._changed.set()

    def is_written(self, index: int) -> bool:
        return all(not isinstance(event, TurnEnded) or event.turn.index != index for event in self._events)

    async def run(self) -> None:
        """Write what comes, for ever. Raises TurnscopeError."""
        while True:
            while self._events:
                await self._until_heard(self._events[0])
                self._write_first()
            self._changed.clear()
            await self._changed.wait()

    def flush(self) -> None:
        """Write what there is. Raises TurnscopeError."""
        while self._events:
            self._write_first()

    async def _until_heard(self, event: Event) -> None:
        if not isinstance(event, TurnEnded) or event.turn.first_audio_ns is None:
            return
        try:
            async with asyncio.timeout(HEARD_WITHIN_S):
                while heard_ns(event.turn) is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _write_first(self) -> None:
        self._run.observe(self._events.popleft())
