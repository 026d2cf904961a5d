"""python -m agent.models: fetches what the default pipeline lacks, silent if that is nothing. `make` calls it."""

import sys

from rich.console import Console

from agent.errors import TurnscopeError
from agent.models import embedded_models, ensure

if __name__ == "__main__":
    try:
        ensure(embedded_models(), Console())
    except TurnscopeError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Interrupted; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
