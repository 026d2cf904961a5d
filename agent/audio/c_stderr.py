"""What C libraries print to the terminal, kept from a live display."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def c_libraries_silenced() -> Iterator[None]:
    """While this lasts, file descriptor 2 leads nowhere: ALSA and PortAudio write there whenever a block is late or a
    device goes. Python's own `sys.stderr` still reaches where it did, through a copy; what already holds on to the old
    one (a handler of `logging`) is silent too."""
    try:
        to_terminal = sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):  # nothing, or something in memory, stands in its place
        to_terminal = False
    old, kept = sys.stderr, os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if to_terminal:
        old.flush()
        raw = io.FileIO(kept, "w", closefd=False)
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), old.encoding, old.errors, line_buffering=True)
    ours = sys.stderr
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        if sys.stderr is ours:
            sys.stderr = old
        if to_terminal:
            with suppress(OSError):  # the terminal is gone
                ours.flush()
        os.dup2(kept, 2)
        os.close(kept)
