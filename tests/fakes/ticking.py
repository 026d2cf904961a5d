"""A clock that shows every reading, and triggers that do not depend on time."""

from collections.abc import Callable


class TickingClock:
    """Moves on by a millisecond whenever it is read."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        self.ns += 1_000_000
        return self.ns

    def wall_ns(self) -> int:
        return self.now_ns()


def never() -> bool:
    return False


def stop_at(number: int) -> Callable[[], bool]:
    """Turns true when asked for the `number`-th time, and stays true."""
    asked = iter(range(1, 1_000_000))
    return lambda: next(asked) >= number
