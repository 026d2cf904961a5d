"""The only file that mixes threads and asyncio: a worker owns one engine's thread, runs its generators one after
another, and hands their items to the event loop. A thread that hangs is left behind."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from agent.job import Job, ShouldStop
from agent.watch import Bound, Watch
from profiling.trace.clock import Clock

T = TypeVar("T")


class Worker(Protocol):
    """Runs the operations of one engine, one at a time, in the order in which they were submitted, each within the
    bound."""

    bound: Bound

    def submit(self, name: str, run: Callable[[ShouldStop], Iterator[T]]) -> Job[T]:
        """`run` is called with `should_stop` and returns the iterator whose items the job delivers."""
        ...

    async def close(self, timeout_s: float = 2.0) -> bool:
        """Cancel what runs and stop; False when an operation did not stop in time."""
        ...


def once(function: Callable[[ShouldStop], T]) -> Callable[[ShouldStop], Iterator[T]]:
    """Make an operation with one result fit `Worker.submit`."""

    def run(should_stop: ShouldStop) -> Iterator[T]:
        yield function(should_stop)

    return run


class ThreadWorker:
    """A worker with a thread of its own. It may be made before there is an event loop; the loop that submits is the
    one it serves. An engine is loaded and warmed up on it, too: libraries keep state by thread (CUDA's handles and
    graphs, PyTorch's number of threads).

    An operation that is given up (`bound`) keeps its thread until it returns, if ever; what it gives is dropped. Where
    the engine is reentrant a new thread goes on with what waits; where not, all fails at once until it returns.
    """

    def __init__(self, name: str, clock: Clock, bound: Bound | None = None):
        self.bound = bound or Bound()
        self._name = name
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unfinished: dict[Job[Any], Watch] = {}  # in the order in which they were submitted
        self._stuck: Job[Any] | None = None
        self._closing = False
        self._changed = threading.Condition()  # guards what follows
        self._tasks: deque[Callable[[], None] | None] = deque()
        self._running: Job[Any] | None = None
        self._thread = self._new_thread()
        self._thread.start()

    def submit(self, name: str, run: Callable[[ShouldStop], Iterator[T]]) -> Job[T]:
        self._loop = asyncio.get_running_loop()
        holder = self._stuck or next(iter(self._unfinished), None)
        job: Job[T] = Job(name, run, self._clock.now_ns(), holder.name if holder else None)
        if self._stuck is not None:
            job.finish(self.bound.stuck())
            return job
        self._unfinished[job] = Watch(job, self.bound, self._clock, self._give_up)
        self._put(lambda: self._run(job))
        return job

    def run_now(self, function: Callable[[], T]) -> T:
        """Run `function` on the thread and wait for it, with or without an event loop. Raises what it raises."""
        future: Future[T] = Future()
        self._put(lambda: _run_for(future, function))
        return future.result()

    def stop(self) -> None:
        """Cancel what runs, and let the thread end when that has; not waited for."""
        self._closing = True
        for job, watch in self._unfinished.items():
            watch.end()
            job.cancel()
        self._put(None)

    async def close(self, timeout_s: float = 2.0) -> bool:
        self.stop()
        deadline_ns = self._clock.now_ns() + round(timeout_s * 1e9)
        while self._thread.is_alive() and self._clock.now_ns() < deadline_ns:
            await asyncio.sleep(0.005)
        return not self._thread.is_alive()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._work, name=self._name, daemon=True)

    def _put(self, task: Callable[[], None] | None) -> None:
        with self._changed:
            self._tasks.append(task)
            self._changed.notify_all()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Callable[[], None] | None:
        """What the calling thread has to do next; None when it has to end."""
        with self._changed:
            if self._left_behind():
                return None
            self._running = None
            self._changed.wait_for(lambda: self._tasks or self._left_behind())
            return None if self._left_behind() else self._tasks.popleft()

    def _left_behind(self) -> bool:
        return self._thread is not threading.current_thread()

    def _run(self, job: Job[Any]) -> None:
        self._running = job
        failure: BaseException | None = None
        try:
            if not job.cancelled:
                job.alive_ns = self._clock.now_ns()
                for item in job.run(lambda: job.cancelled):
                    job.alive_ns = self._clock.now_ns()
                    self._post(job.deliver, item)
                    if self._left_behind():
                        break
        except Exception as error:
            failure = error
        self._post(self._finish, job, failure)

    def _finish(self, job: Job[Any], failure: BaseException | None) -> None:
        if self._stuck is job:
            self._stuck = None
        if (watch := self._unfinished.pop(job, None)) is not None:
            watch.end()
        job.finish(failure)

    def _give_up(self, job: Job[Any]) -> None:
        with self._changed:
            if self._running is not job or self._closing:  # it waits, and will be passed over
                return
            if self.bound.reentrant:
                self._thread = self._new_thread()
                self._thread.start()
        self._finish(job, self.bound.endless())
        if not self.bound.reentrant:
            self._stuck = job
            for waiting in list(self._unfinished):
                waiting.cancel()
                self._finish(waiting, self.bound.stuck())

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(callback, *args)


def _run_for(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # also what would end a thread silently: somebody waits
        future.set_exception(error)
