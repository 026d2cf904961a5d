"""How long an engine may take: one that gives nothing is stopped, one that does not stop is given up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from agent.errors import TurnscopeError
from agent.job import Job
from profiling.trace.clock import Clock, seconds

STOP_S = 3.0  # how long what was told to stop may take to end


@dataclass(frozen=True)
class Bound:
    """`limit_s`: an operation that gives no item for so long is cancelled and fails; None: it may take for ever.
    `stop_s`: one that has not ended so long after it was cancelled is given up. `name` is the engine's, and `setting`
    the limit's, in the sentences that say so.

    `reentrant`: while a call that was given up hangs, another may be made. One of an engine that is not is given up
    only when it has given nothing for `limit_s`, too, since nothing can run in its place.
    """

    limit_s: float | None = None
    stop_s: float = STOP_S
    reentrant: bool = True
    name: str = "the engine"
    setting: str = "[limits]"

    def silent(self) -> TurnscopeError:
        return TurnscopeError(
            f"{self._subject} gave nothing for {self.limit_s:g} s and was stopped: if it needs longer, raise "
            f"{self.setting}."
        )

    def endless(self) -> TurnscopeError:
        return TurnscopeError(
            f"{self._subject} was told to stop and did not within {self.stop_s:g} s: it was given up, and its next "
            "work is done without it."
        )

    def stuck(self) -> TurnscopeError:
        return TurnscopeError(
            f"{self._subject} is stuck in a call that does not end, and cannot do anything else meanwhile: start "
            "turnscope again if it stays so."
        )

    @property
    def _subject(self) -> str:
        return self.name[:1].upper() + self.name[1:]


class Watch:
    """Holds one operation to the bound, on the event loop, until `end`. `give_up(job)` is called once it should have
    stopped."""

    def __init__(self, job: Job[Any], bound: Bound, clock: Clock, give_up: Callable[[Job[Any]], None]):
        self._job = job
        self._bound = bound
        self._clock = clock
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        job.on_cancel = self._expect_end
        if bound.limit_s is not None:
            self._timer = self._loop.call_later(bound.limit_s, self._look)

    def end(self) -> None:
        """The operation has returned."""
        self._job.on_cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Has it given nothing for too long? While it waits for its turn, others are to blame."""
        if (rest_s := self._rest_s()) > 0:
            self._timer = self._loop.call_later(rest_s, self._look)
        else:
            self._job.finish(self._bound.silent())
            self._job.cancel()

    def _expect_end(self) -> None:
        """It has been cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._bound.stop_s, self._look_for_end)

    def _look_for_end(self) -> None:
        if self._bound.reentrant or (rest_s := self._rest_s()) <= 0:
            self._give_up(self._job)
        elif rest_s < inf:
            self._timer = self._loop.call_later(rest_s, self._look_for_end)

    def _rest_s(self) -> float:
        """How much longer it may give nothing."""
        limit_s, alive_ns = self._bound.limit_s, self._job.alive_ns
        if limit_s is None:
            return inf
        return limit_s if alive_ns is None else limit_s - seconds(self._clock.now_ns() - alive_ns)
