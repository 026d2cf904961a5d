"""python -m agent.setup [--dev]: makes the checkout ready to run, then fetches the models. Called by setup.sh."""

import os
import sys
import time
from pathlib import Path

from agent.setup import environment
from agent.setup.steps import SetupError
from agent.user_cache import exclusive


def main(dev: bool) -> None:
    """Set up the checkout in the current directory unless that is done. Raises SetupError."""
    if environment.is_ready(dev):
        return
    with exclusive(
        Path("build/setup.lock"), lambda: print("Another set-up of this checkout is running; waiting for it")
    ):
        if environment.is_ready(dev):
            return
        print(
            "Setting up Turnscope: packages into .venv, models into the user's cache (a few minutes, once)", flush=True
        )
        began_s = time.monotonic()
        environment.set_up(dev)
        print(f"Packages are ready after {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        main(dev="--dev" in sys.argv[1:])
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
