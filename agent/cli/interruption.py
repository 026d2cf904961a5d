"""Ctrl-C and SIGTERM: what they do before there is a run, and how the process is left."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from agent import temporary

INTERRUPTED, TERMINATED = 130, 143

_terminated = False


def treat_sigterm_as_ctrl_c() -> None:
    """SIGTERM ends what runs as Ctrl-C would; `exit_code` tells them apart. Ctrl-C works in the background job of a
    script too, which inherits it as ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _on_sigterm)


def exit_code() -> int:
    """The exit code of an interrupted command."""
    return TERMINATED if _terminated else INTERRUPTED


@contextmanager
def ending_at_once() -> Iterator[None]:
    """While nothing is worth keeping (models load), both signals end the process on the spot, with no more words."""
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in usual:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def leave(code: int) -> None:
    """Exit, also when an engine did not stop in time: no interpreter is torn down under a running library call."""
    if threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        _end(code)
    sys.exit(code)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    signal.raise_signal(signal.SIGINT)


def _leave(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"\x1b[?25h\n" if os.isatty(2) else b"")  # the progress line had hidden the cursor
    _end(TERMINATED if number == signal.SIGTERM else INTERRUPTED)


def _end(code: int) -> NoReturn:
    """Without a word to the other threads: their temporary folders are removed and their servers stopped here."""
    temporary.undo_all()
    os._exit(code)
