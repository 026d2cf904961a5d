"""The `turnscope` command, and the one place where an error becomes a sentence and an exit code."""

import os
import sys
from contextlib import suppress

from agent.cli import interruption

BAD_INPUT, UNEXPECTED = 2, 1


def main() -> None:
    """Run the command line; never lets a traceback reach the user (TURNSCOPE_DEBUG=1 shows it)."""
    try:
        interruption.treat_sigterm_as_ctrl_c()
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # it was closed by whoever started us
                setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        interruption.leave(_run())
    except KeyboardInterrupt:
        interruption.leave(interruption.exit_code())
    except Exception as error:
        if os.environ.get("TURNSCOPE_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".rstrip(".")
        sentence = f"Something unexpected went wrong: {what}. Set TURNSCOPE_DEBUG=1 to see where."
        interruption.leave(_say(sentence, UNEXPECTED))


def _run() -> int:
    """Everything is imported here: Ctrl-C while libraries load ends the process on the spot, since a library may take
    the interruption for a failure of its own."""
    with interruption.ending_at_once():
        import click

        from agent.cli.commands import cli
        from agent.errors import TurnscopeError
        from profiling.run import RunUnreadable, RunUnwritable

    try:
        cli(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        usage = error.ctx.get_usage() + "\n" if isinstance(error, click.UsageError) and error.ctx else ""
        return _say(f"{usage}{error.format_message()}", BAD_INPUT)
    except TurnscopeError as error:
        return _say(str(error), error.exit_code)
    except (RunUnreadable, RunUnwritable) as error:
        return _say(str(error), BAD_INPUT)
    except BrokenPipeError:
        _point_at_nothing(sys.stdout.fileno())
    except OSError as error:
        _point_at_nothing(sys.stdout.fileno())
        return _say(f"The output cannot be written: {error.strerror or error}.", BAD_INPUT)
    return 0


def _point_at_nothing(descriptor: int) -> None:
    """The interpreter's own flush at exit needs a sink."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _say(sentence: str, exit_code: int) -> int:
    with suppress(OSError):
        red, plain = ("\033[1;31m", "\033[0m") if sys.stderr.isatty() else ("", "")
        print(f"{red}{sentence}{plain}", file=sys.stderr, flush=True)
        return exit_code
    _point_at_nothing(2)
    return exit_code
