"""How long a part of the measurements may take: a slow engine is measured less often, never for longer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TypeVar

from profiling.trace.clock import NS_PER_S, Clock

T = TypeVar("T")
Order = Callable[[int, Sequence[T]], Iterable[T]]


def as_given(number: int, items: Sequence[T]) -> Iterable[T]:
    return items


def to_and_fro(number: int, items: Sequence[T]) -> Iterable[T]:
    """Every second round from the end to the beginning: a machine that gets slower or faster tilts no line."""
    return items if number % 2 == 0 else reversed(items)


class Budget:
    """Time that begins now. `spent` is asked between two measurements."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end_ns = clock.now_ns() + round(seconds * NS_PER_S)

    @property
    def spent(self) -> bool:
        return self._clock.now_ns() >= self._end_ns

    def rounds(self, *, least: int = 1, most: int | None = None) -> Iterator[int]:
        """Numbers of rounds, from 0, while there is time: `least` in any case, and not more than `most`."""
        for number in count() if most is None else range(most):
            if number >= least and self.spent:
                return
            yield number

    def interleaved(
        self, items: Sequence[T], *, least: int = 1, most: int | None = None, order: Order[T] = as_given
    ) -> Iterator[tuple[int, T]]:
        """Every item once a round, with the round's number; after the `least` rounds it also ends within one. `order`
        gives a round's items from its number and all of them."""
        for number in self.rounds(least=least, most=most):
            for item in order(number, items):
                if number >= least and self.spent:
                    return
                yield number, item
