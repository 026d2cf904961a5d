"""Python's search for reference cycles, put off where a great many objects are made that have none."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_search_for_cycles() -> Generator[None]:
    """To look for cycles takes a third of the time that a long trace needs, and there are none in what is read."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
