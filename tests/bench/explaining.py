"""How long `turnscope explain` takes for a run of 1,000 turns and a million steps, how much memory, and whether both
grow with the turns and no faster. By itself: `python -m tests.bench.explaining`."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from profiling.trace.clock import SystemClock
from tests.bench.long_run import write_run

STEPS_OF_A_TURN, TURNS, FEWER_TURNS = 1000, 1000, 250


@dataclass(frozen=True)
class Explained:
    """What the command took: wall time, CPU time, peak resident memory."""

    turns: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def measure() -> tuple[Explained, Explained]:
    """A run of 250 turns and one of 1,000."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_explain(Path(folder) / str(turns), turns) for turns in (FEWER_TURNS, TURNS))
    return few, many


def growth(few: Explained, many: Explained) -> float:
    """CPU time per turn of the longer run over that of the shorter one: 1 where it is linear, start-up aside."""
    return many.cpu_s / many.turns / (few.cpu_s / few.turns)


def _explain(parent: Path, turns: int) -> Explained:
    folder = write_run(parent, SystemClock(), turns, STEPS_OF_A_TURN)
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "agent.cli", "explain", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"explain ended with {process.returncode}")
    wall_s = time.perf_counter() - started_s
    return Explained(turns, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    shorter, longer = measure()
    for run in (shorter, longer):
        print(f"{run.turns} turns: {run.wall_s:.1f} s, {run.cpu_s:.1f} s of CPU, {run.peak_mb:.0f} MB")
    print(f"{growth(shorter, longer):.2f} times the CPU time per turn")
