"""The `turnscope` command, and the one place where an error becomes a sentence and an exit code."""

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

BAD_INPUT, UNEXPECTED, INTERRUPTED, TERMINATED = 2, 1, 130, 143


_terminated = False


def main() -> None:
    """Run the command line; never lets a traceback reach the user (TURNSCOPE_DEBUG=1 shows it)."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        _exit(_run())
    except KeyboardInterrupt:
        _exit(TERMINATED if _terminated else INTERRUPTED)
    except Exception as error:
        if os.environ.get("TURNSCOPE_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".rstrip(".")
        _exit(_say(f"Something unexpected went wrong: {what}. Set TURNSCOPE_DEBUG=1 to see where.", UNEXPECTED))


def _run() -> int:
    """Everything is imported here, so that Ctrl-C while the libraries load is an interruption like any other."""
    import click

    from agent.cli.commands import cli
    from agent.errors import TurnscopeError
    from profiling.run import RunUnreadable, RunUnwritable

    try:
        cli(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except TurnscopeError as error:
        return _say(str(error), error.exit_code)
    except (RunUnreadable, RunUnwritable) as error:
        return _say(str(error), BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter's own flush needs a sink
    return 0


def _exit(code: int) -> None:
    """Leave, also when an engine did not stop in time: no interpreter is torn down under a running library call."""
    if threading.active_count() > 1:
        with suppress(OSError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _say(sentence: str, exit_code: int) -> int:
    red, plain = ("\033[1;31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}{sentence}{plain}", file=sys.stderr)
    return exit_code


def _terminate(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends what runs as Ctrl-C would."""
    global _terminated
    _terminated = True
    signal.raise_signal(signal.SIGINT)
