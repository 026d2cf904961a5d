"""Where the commands print: results on standard output, notes and progress on standard error."""

import io
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO, TextIO, cast

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read the output has seen enough: told to the caller, who ends in good order."""
        raise BrokenPipeError


class _Forgiving(io.TextIOBase):
    """Standard error, where it can be written: a note that cannot be shown does not end a run."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._stream.encoding


def output() -> Console:
    return _Console()


def notes() -> Console:
    return Console(file=cast(IO[str], _Forgiving(sys.stderr)))


@contextmanager
def progress(console: Console, line: str = "{} …") -> Generator[Callable[[str], None]]:
    """A line that tells what is being done, for as long as the block lasts; it gets a function that changes what."""
    with console.status("Starting …") as status:

        def tell(what: str) -> None:
            told = line.format(what)
            status.update(f"{told[0].upper()}{told[1:]}")

        yield tell


def note(console: Console, sentence: str) -> None:
    """Print a sentence that is no result: a warning, a problem that did not stop the run."""
    console.print(sentence, style="yellow", markup=False, highlight=False)
