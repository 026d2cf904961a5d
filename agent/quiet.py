"""Silence while a library is imported or loads a model."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what every library prints, logs and warns about from the terminal. Python's warning machinery, into which
    some put themselves, is put back afterwards."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    nowhere = _Nowhere()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


class _Nowhere(io.StringIO):
    """Keeps nothing, since a log handler made meanwhile holds on to it."""

    def write(self, text: str, /) -> int:
        return len(text)
