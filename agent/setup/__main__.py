"""python -m agent.setup [--gpu | --dev] [--sound]: makes the checkout ready, then fetches the models. Called by
setup.sh. With --sound, what a sound card needs is installed too."""

import os
import sys
import time
from pathlib import Path

from agent.setup import environment, system
from agent.setup.environment import Level
from agent.setup.steps import SetupError
from agent.user_cache import exclusive

_SIZE = {"run": "a few minutes, once", "gpu": "several minutes and gigabytes, once"}


def main(level: Level) -> None:
    """Set up the checkout in the current directory unless that is done. Raises SetupError."""
    if environment.is_ready(level):
        return
    with exclusive(
        Path("build/setup.lock"), lambda: print("Another set-up of this checkout is running; waiting for it")
    ):
        if environment.is_ready(level):
            return
        print(
            "Setting up Turnscope: packages into .venv, models into the user's cache "
            f"({_SIZE['run' if level == 'run' else 'gpu']})",
            flush=True,
        )
        began_s = time.monotonic()
        environment.set_up(level)
        print(f"Packages are ready after {time.monotonic() - began_s:.0f} s", flush=True)
        if level == "gpu":
            print(
                "The big engines' weights come with `.venv/bin/turnscope models fetch nemotron gemma-4-12b voxcpm2`",
                flush=True,
            )


if __name__ == "__main__":
    try:
        main("dev" if "--dev" in sys.argv[1:] else "gpu" if "--gpu" in sys.argv[1:] else "run")
        if "--sound" in sys.argv[1:]:
            system.require(needs_compiler=False, sound=True)
    except SetupError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"Set-up stopped: {error}; mend that, then run the same command again.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\nInterrupted; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
    os.execv(environment.PYTHON, [environment.PYTHON, "-m", "agent.models"])
