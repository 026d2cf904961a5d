"""An event loop whose clock jumps to the next timer, a clock that reads it, and a worker that runs engines on it.

Virtual time has a grain of one microsecond, so that times in seconds convert to nanoseconds without rounding.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn, TypeVar

from agent.job import Job, ShouldStop
from agent.watch import Bound, Watch

T = TypeVar("T")
NS_PER_US = 1_000


class Hung(BaseException):
    """Raised by `VirtualClock.hang`, and for its worker only."""


class VirtualClock:
    """Monotonic time in ns. A fake engine spends time with `work`; its worker lets the loop catch up."""

    def __init__(self) -> None:
        self.time_us = 1_000_000
        self.wall_offset_ns = 1_700_000_000_000_000_000
        self.spent_us = 0

    def now_ns(self) -> int:
        return (self.time_us + self.spent_us) * NS_PER_US

    def wall_ns(self) -> int:
        return self.now_ns() + self.wall_offset_ns

    def work(self, seconds: float) -> None:
        """The calling engine computes for so long."""
        self.spent_us += round(seconds * 1e6)

    def hang(self) -> NoReturn:
        """The calling engine's operation never gives anything again, and looks at no `should_stop`."""
        raise Hung


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, moves the clock to where the wait would have ended."""

    def __init__(self, clock: VirtualClock):
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if timeout is None and not ready:
            raise RuntimeError("virtual time stands still: every task waits for something that no timer will bring")
        if timeout and not ready:
            self._clock.time_us += max(1, round(timeout * 1e6))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock):
        super().__init__(_JumpingSelector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.time_us / 1e6


class VirtualWorker:
    """A reentrant engine's `ThreadWorker` on the loop: operations run one at a time, each item is delivered when the
    engine's `work` for it has passed, and one that is given up is left behind."""

    def __init__(self, clock: VirtualClock, limit_s: float = 20.0):
        self.bound = Bound(limit_s)
        self._clock = clock
        self._waiting: deque[Job[Any]] = deque()
        self._watches: dict[Job[Any], Watch] = {}
        self._running: Job[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    def submit(self, name: str, run: Callable[[ShouldStop], Iterator[T]]) -> Job[T]:
        holder = self._running or (self._waiting[0] if self._waiting else None)
        job: Job[T] = Job(name, run, self._clock.now_ns(), holder.name if holder else None)
        self._watches[job] = Watch(job, self.bound, self._clock, self._give_up)
        self._waiting.append(job)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())
        return job

    async def close(self, timeout_s: float = 2.0) -> bool:
        for job, watch in self._watches.items():
            watch.end()
            job.cancel()
        return self._task is None or bool((await asyncio.wait([self._task], timeout=timeout_s))[0])

    async def _work(self) -> None:
        while self._waiting:
            job = self._running = self._waiting.popleft()
            failure: BaseException | None = None
            try:
                items = iter(()) if job.cancelled else job.run(lambda job=job: job.cancelled)
                job.alive_ns = self._clock.now_ns()
                while True:
                    item = next(items, self)
                    spent_us, self._clock.spent_us = self._clock.spent_us, 0
                    if spent_us:
                        await asyncio.sleep(spent_us / 1e6)
                    if item is self:
                        break
                    job.alive_ns = self._clock.now_ns()
                    job.deliver(item)
            except Exception as error:
                self._clock.spent_us = 0
                failure = error
            except Hung:
                self._clock.spent_us = 0
                await asyncio.Event().wait()
            self._running = None
            self._finish(job, failure)

    def _finish(self, job: Job[Any], failure: BaseException | None) -> None:
        self._watches.pop(job).end()
        job.finish(failure)

    def _give_up(self, job: Job[Any]) -> None:
        if job is not self._running or self._task is None:
            return
        self._task.cancel()
        self._running = None
        self._finish(job, self.bound.endless())
        self._task = asyncio.ensure_future(self._work())


def run_virtually(clock: VirtualClock, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a virtual loop."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
