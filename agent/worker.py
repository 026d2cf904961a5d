"""The only file that mixes threads and asyncio: a worker owns one engine's thread, runs its generators one after
another, and hands their items to the event loop."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar, cast

from profiling.trace.clock import Clock

T = TypeVar("T")
ShouldStop = Callable[[], bool]
_END = object()


class Job(Generic[T]):
    """One operation of an engine: iterate over it for its items, or await `result()` for the only one.

    `submitted_ns` is when the loop asked for it; `waited_for` names the operation that held the engine at that
    moment, if any. An exception of the engine is raised where the items are awaited.
    """

    def __init__(self, name: str, run: Callable[[ShouldStop], Iterator[T]], submitted_ns: int, waited_for: str | None):
        self.name = name
        self.submitted_ns = submitted_ns
        self.waited_for = waited_for
        self.run = run
        self._stop = threading.Event()
        self._items: asyncio.Queue[object] = asyncio.Queue()
        self._failure: BaseException | None = None
        self._ended = asyncio.Event()

    def cancel(self) -> None:
        """Ask the operation to stop at its next check; its remaining items are dropped by the engine, not here."""
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    async def __aiter__(self) -> AsyncIterator[T]:
        while (item := await self._items.get()) is not _END:
            yield cast(T, item)
        if self._failure is not None:
            raise self._failure

    async def result(self) -> T:
        """The first item; the job is run to its end. Raises RuntimeError when the operation was stopped before it
        gave one."""
        items = [item async for item in self]
        if not items:
            raise RuntimeError(f"{self.name} was stopped before it gave a result")
        return items[0]

    def deliver(self, item: T) -> None:
        """Called on the event loop by the worker, once per item."""
        self._items.put_nowait(item)

    def finish(self, failure: BaseException | None = None) -> None:
        """Called on the event loop by the worker, once."""
        self._failure = failure
        self._items.put_nowait(_END)
        self._ended.set()


class Worker(Protocol):
    """Runs the operations of one engine, one at a time, in the order in which they were submitted."""

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
    graphs, PyTorch's number of threads)."""

    def __init__(self, name: str, clock: Clock):
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._unfinished: list[Job[Any]] = []
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, name: str, run: Callable[[ShouldStop], Iterator[T]]) -> Job[T]:
        self._loop = asyncio.get_running_loop()
        holder = self._unfinished[0].name if self._unfinished else None
        job: Job[T] = Job(name, run, self._clock.now_ns(), holder)
        self._unfinished.append(job)
        self._queue.put(lambda: self._run(job))
        return job

    def run_now(self, function: Callable[[], T]) -> T:
        """Run `function` on the thread and wait for it, with or without an event loop. Raises what it raises."""
        future: Future[T] = Future()
        self._queue.put(lambda: _run_for(future, function))
        return future.result()

    def stop(self) -> None:
        """Cancel what runs, and let the thread end when that has; not waited for."""
        for job in self._unfinished:
            job.cancel()
        self._queue.put(None)

    async def close(self, timeout_s: float = 2.0) -> bool:
        self.stop()
        deadline_ns = self._clock.now_ns() + round(timeout_s * 1e9)
        while self._thread.is_alive() and self._clock.now_ns() < deadline_ns:
            await asyncio.sleep(0.005)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (run := self._queue.get()) is not None:
            run()

    def _run(self, job: Job[Any]) -> None:
        failure: BaseException | None = None
        try:
            if not job.cancelled:
                for item in job.run(lambda: job.cancelled):
                    self._post(job.deliver, item)
        except Exception as error:
            failure = error
        self._post(self._finish, job, failure)

    def _finish(self, job: Job[Any], failure: BaseException | None) -> None:
        self._unfinished.remove(job)
        job.finish(failure)

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)


def _run_for(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # also what would end a thread silently: somebody waits
        future.set_exception(error)
