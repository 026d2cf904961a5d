"""Waiting for a moment on the monotonic clock."""

import asyncio
import selectors

from profiling.trace.clock import NS_PER_S, Clock


def precise_loop() -> asyncio.AbstractEventLoop:
    """An event loop with microsecond timers; with epoll, the usual choice, a wait is rounded up to a millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def sleep_until(clock: Clock, ns: int) -> None:
    """Return at or after the given monotonic time, at once when it has passed."""
    while (left_ns := ns - clock.now_ns()) > 0:
        await asyncio.sleep(left_ns / NS_PER_S)
