"""Waiting for a moment on the monotonic clock."""

import asyncio

from profiling.trace.clock import NS_PER_S, Clock


async def sleep_until(clock: Clock, ns: int) -> None:
    """Return at or after the given monotonic time, at once when it has passed."""
    while (left_ns := ns - clock.now_ns()) > 0:
        await asyncio.sleep(left_ns / NS_PER_S)
