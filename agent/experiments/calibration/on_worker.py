"""Measuring an engine where it is served."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from agent.worker import ThreadWorker

T = TypeVar("T")


def on_worker(worker: object, measure: Callable[[], Iterable[T]]) -> list[T]:
    """All that is measured on the thread that serves the engine, since libraries keep state by thread."""
    if not isinstance(worker, ThreadWorker):
        raise TypeError(f"{worker!r} has no thread of its own to measure on")
    return worker.run_now(lambda: list(measure()))
