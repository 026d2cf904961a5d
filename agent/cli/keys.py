"""Single keys while a command runs, where it is typed at in a terminal."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent import temporary


@contextmanager
def keys(on_key: Callable[[str], None]) -> Iterator[bool]:
    """`on_key` is called on the running event loop with every character that is typed, for as long as the block lasts.
    Gives False, and no keys, where standard input is no terminal or another process has the terminal.

    Ctrl-C and Ctrl-Z work as ever. The terminal is as it was afterwards, however the process is left, unless it is
    killed.
    """
    terminal = _terminal()
    if terminal is None:
        yield False
        return
    loop, before = asyncio.get_running_loop(), termios.tcgetattr(terminal)

    def listen() -> None:
        tty.setcbreak(terminal)

    def read() -> None:
        try:
            typed = os.read(terminal, 64)
        except OSError:  # the terminal is gone
            typed = b""
        if not typed:
            loop.remove_reader(terminal)
        for character in _characters(typed):
            on_key(character)

    with temporary.undone(lambda: _restore(terminal, before)):
        listen()
        loop.add_reader(terminal, read)
        loop.add_signal_handler(signal.SIGCONT, listen)  # the shell has its own mode while we are stopped
        try:
            yield True
        finally:
            loop.remove_signal_handler(signal.SIGCONT)
            loop.remove_reader(terminal)


def _terminal() -> int | None:
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):  # there is none, it is closed, or in memory
        return None


def _restore(terminal: int, before: list[int | list[bytes | int]]) -> None:
    try:
        if os.tcgetpgrp(terminal) == os.getpgrp():
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    except (OSError, termios.error):
        return


def _characters(typed: bytes) -> str:
    """An arrow or another special key is several bytes, of which the first is escape: none of them counts."""
    return "" if typed.startswith(b"\x1b") else typed.decode("utf-8", "ignore")
