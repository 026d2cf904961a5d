"""One operation of an engine, as the event loop sees it: items come, it ends or fails, and it can be told to stop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar, cast

T = TypeVar("T")
ShouldStop = Callable[[], bool]
_END = object()


class Job(Generic[T]):
    """Iterate over it for its items, or await `result()` for the only one. An exception of the engine is raised there.

    `submitted_ns` is when the loop asked for it; `waited_for` names the operation that held the engine at that moment,
    if any. `alive_ns` is when it was taken up or gave its last item, None while it waits. `on_cancel` is called when it
    is cancelled for the first time.
    """

    def __init__(self, name: str, run: Callable[[ShouldStop], Iterator[T]], submitted_ns: int, waited_for: str | None):
        self.name = name
        self.submitted_ns = submitted_ns
        self.waited_for = waited_for
        self.run = run
        self.alive_ns: int | None = None
        self.on_cancel: Callable[[], None] | None = None
        self._cancelled = False
        self._items: asyncio.Queue[object] = asyncio.Queue()
        self._failure: BaseException | None = None
        self._ended = asyncio.Event()

    def cancel(self) -> None:
        """Ask the operation to stop at its next check; its remaining items are dropped by the engine, not here."""
        if not self._cancelled:
            self._cancelled = True
            if self.on_cancel is not None:
                self.on_cancel()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    @property
    def succeeded(self) -> bool:
        return self.done and self._failure is None

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

    async def ended(self) -> None:
        """Wait for its end, without taking its items. Raises what it failed with."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def deliver(self, item: T) -> None:
        """Called on the event loop by the worker, once per item. What comes after the end is dropped."""
        if not self.done:
            self._items.put_nowait(item)

    def finish(self, failure: BaseException | None = None) -> None:
        """Called on the event loop by the worker. The first end counts."""
        if not self.done:
            self._failure = failure
            self._items.put_nowait(_END)
            self._ended.set()
