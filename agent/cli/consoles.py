"""Where the commands print: results on standard output, notes and progress on standard error."""

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever read the output has seen enough: told to the caller, who ends in good order."""
        raise BrokenPipeError


def output() -> Console:
    return _Console()


def notes() -> Console:
    return _Console(stderr=True)


def note(console: Console, sentence: str) -> None:
    """Print a sentence that is no result: a warning, a problem that did not stop the run."""
    console.print(sentence, style="yellow", markup=False, highlight=False)
