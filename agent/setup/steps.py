"""One step of set-up: a line on the terminal, the command's output in a log, and its last words if it fails."""

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

LOG = Path("build/setup.log")

_TAIL_LINES = 15
_TAIL_BYTES = 8192
_REFRESH_S = 0.5


class SetupError(Exception):
    """A sentence for the user: what failed and what to do."""


def run_step(
    title: str,
    command: Sequence[str | Path],
    advice: str,
    env: Mapping[str, str] | None = None,
    progress: str | None = None,
) -> None:
    """Run `command` with its output in the log; say `title` and how long it took.

    On a terminal also show, meanwhile, what the regular expression `progress` last matched, its group 1. Raises
    SetupError, ending with `advice`, after showing the log's last lines.
    """
    began_s = time.monotonic()
    print(f"{title} ...", end="" if sys.stdout.isatty() else "\n", flush=True)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("ab") as log:
        log.write(f"\n$ {' '.join(map(str, command))}\n".encode())
        log.flush()
        # Without close_fds the child keeps the locks of this set-up until it too has ended.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, close_fds=False)
    try:
        while _still_runs(child):
            if sys.stdout.isatty():
                shown = re.findall(progress, _log_tail())[-1:] if progress else []
                _rewrite(f"{title} ... {time.monotonic() - began_s:.0f} s {' '.join(shown)}")
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    took = f"{time.monotonic() - began_s:.0f} s"
    if sys.stdout.isatty():
        _rewrite(f"{title}: {took}\n")
    elif child.returncode == 0:
        print(f"  {took}", flush=True)
    if child.returncode != 0:
        print(*_log_tail().splitlines()[-_TAIL_LINES:], sep="\n", file=sys.stderr)
        raise SetupError(
            f"Set-up stopped at '{title}' (all output is in {LOG}): {advice}, then run the same command again."
        )


def _still_runs(child: subprocess.Popen[bytes]) -> bool:
    """Wait for the child for a moment; say whether it runs on."""
    try:
        child.wait(_REFRESH_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _rewrite(line: str) -> None:
    print(f"\r\033[K{line}", end="", flush=True)


def _log_tail() -> str:
    with LOG.open("rb") as log:
        log.seek(max(0, LOG.stat().st_size - _TAIL_BYTES))
        return log.read().decode(errors="replace")
