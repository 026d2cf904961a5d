"""The `turnscope` command, and the one place where an error becomes a sentence and an exit code."""

import os
import signal
import sys
from types import FrameType

import click
from rich.console import Console

from agent.cli.explain import explain
from agent.cli.models import models
from agent.cli.replay import replay
from agent.errors import TurnscopeError
from profiling.run import RunUnreadable, RunUnwritable

BAD_INPUT, UNEXPECTED, INTERRUPTED, TERMINATED = 2, 1, 130, 143


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnscope")
def cli() -> None:
    """Turnscope: a streaming voice agent that explains its own latency."""


cli.add_command(replay)
cli.add_command(explain)
cli.add_command(models)


class Terminated(KeyboardInterrupt):
    """SIGTERM: what runs is ended as Ctrl-C would end it."""


def main() -> None:
    """Run the command line; never lets a traceback reach the user (TURNSCOPE_DEBUG=1 shows it)."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except (TurnscopeError, RunUnreadable, RunUnwritable) as error:
        _say(str(error))
        sys.exit(getattr(error, "exit_code", BAD_INPUT))
    except Terminated:
        sys.exit(TERMINATED)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - so that the interpreter's own flush finds a sink
        sys.exit(0)
    except Exception as error:
        if os.environ.get("TURNSCOPE_DEBUG"):
            raise
        _say(f"Something unexpected went wrong: {type(error).__name__}: {error}. TURNSCOPE_DEBUG=1 shows where.")
        sys.exit(UNEXPECTED)


def _say(sentence: str) -> None:
    Console(stderr=True).print(sentence, style="bold red", markup=False, highlight=False)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
