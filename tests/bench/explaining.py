"""How long `turnscope explain` takes for a run of 1,000 turns and a million steps, how much memory, and whether both
grow with the turns and no faster."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from profiling.run_evidence import keep_evidence, keep_probes
from profiling.trace.clock import SystemClock
from tests.bench.figure import Figure, load
from tests.bench.long_run import write_run
from tests.bench.long_run_evidence import calibration, probes, survey, work_book

_COMMAND = """
import runpy, sys
from pathlib import Path
try:
    runpy.run_module("agent.cli", run_name="__main__")
finally:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print("\\n" + next(line for line in status.splitlines() if line.startswith("VmHWM")), file=sys.stderr)
"""  # the kernel's ru_maxrss would count what this process took before it became that one
STEPS_OF_A_TURN, TURNS, FEWER_TURNS = 1000, 1000, 250


@dataclass(frozen=True)
class _Explained:
    """What the command took: wall time, CPU time, peak resident memory."""

    turns: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def explaining(console: Console) -> Iterator[Figure]:
    """A run of 250 turns and one of 1,000."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_explain(console, Path(folder) / str(turns), turns) for turns in (FEWER_TURNS, TURNS))
    how = f"{TURNS} turns, {TURNS * STEPS_OF_A_TURN} steps"
    yield Figure("explaining a long run", many.wall_s, 10, "s", f"{how}; {many.cpu_s:.1f} s of CPU, {load()}")
    yield Figure("memory of explaining it", many.peak_mb, 500, "MB", f"{how}; peak resident size")
    growth = many.cpu_s / many.turns / (few.cpu_s / few.turns)
    yield Figure("growth of explaining", growth, 1.2, "", f"CPU time per turn, {TURNS} turns against {FEWER_TURNS}")


def _explain(console: Console, parent: Path, turns: int) -> _Explained:
    console.print(f"  Explaining {turns} turns …")
    folder = write_run(parent, SystemClock(), turns, STEPS_OF_A_TURN)
    keep_evidence(folder, work_book(), calibration(), survey())
    keep_probes(folder, probes())
    started_s = time.perf_counter()
    command = [sys.executable, "-c", _COMMAND, "explain", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"explain ended with {process.returncode}: {told}")
    peak_kib = int(told.splitlines()[-1].split()[1])
    wall_s = time.perf_counter() - started_s
    return _Explained(turns, wall_s, used.ru_utime + used.ru_stime, peak_kib * 1024 / 1e6)
