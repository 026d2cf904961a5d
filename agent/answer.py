"""A turn that is being answered, from the end of the user's speech to the end of the reply."""

import asyncio
from dataclasses import dataclass, field

from agent.barge_in import Wish
from agent.listening.utterance import Utterance
from agent.speaking import Speaking
from agent.thinking import Thinking
from agent.watch import STOP_S
from profiling.trace import vocabulary as v
from profiling.trace.clock import seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason


@dataclass(eq=False)
class Answer:
    """`decided` is set once it is known whether the utterance holds words to answer, `asked` says that they are in the
    history, `task` does all the work and ends with the turn."""

    utterance: Utterance
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    asked: bool = False
    thinking: Thinking | None = None
    speaking: Speaking | None = None
    end_reason: EndReason | None = None
    task: asyncio.Task[None] | None = None

    @property
    def turn(self) -> Turn:
        return self.utterance.turn

    @property
    def goes_on(self) -> bool:
        """Whether nothing has told it to end."""
        return self.end_reason is None

    @property
    def audible(self) -> bool:
        """Whether the user has heard something of the reply."""
        return self.speaking is not None and self.speaking.playback.audible

    def follow(self, wish: Wish, why: str) -> None:
        """Be held, pause or go on; `why` says what the user's sound turned out to be."""
        if self.speaking is None:
            return
        if wish is Wish.PAUSE or (wish is Wish.HOLD and not self.audible):
            self.speaking.pause()
        else:
            self.speaking.resume(why)

    def interrupt(self, heard_ns: int, why: str) -> None:
        """The user has said something else: a reply that is being heard ends here; one that is not yet heard answered
        half a sentence; one of which nothing is left ends by itself. `heard_ns` is when speech had lasted long
        enough."""
        audible = self.audible
        if audible and self.speaking is not None and self.speaking.playback.ending:
            return
        self.stop(EndReason.INTERRUPTED if audible else EndReason.CUT_OFF, why)
        silent_ns = self.speaking.playback.end_ns if self.speaking else None
        if audible and silent_ns is not None:
            self.turn.attributes[v.TURN_BARGE_IN_STOP_S] = max(0.0, seconds(silent_ns - heard_ns))

    def stop(self, reason: EndReason, why: str = "") -> None:
        """Fall silent and stop the engines; the answer ends by itself soon after."""
        self.end_reason = self.end_reason or reason
        if self.thinking:
            self.thinking.stop()
        if self.speaking:
            self.speaking.stop(why)

    async def ended(self) -> None:
        """Wait for it: as long as it lasts where it may not be interrupted, else within a bound."""
        if self.task is None:
            return
        await asyncio.wait([self.task], timeout=None if self.goes_on else STOP_S)
        self.task.cancel()
        await asyncio.wait([self.task], timeout=STOP_S)
