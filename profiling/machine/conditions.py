"""How the machine was while something was measured on it, and sentences about what disturbed that."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from profiling.machine.kernels import ROOT
from profiling.trace.clock import Clock, seconds

LOADED_SHARE = 0.10  # of all processors, by others
STOLEN_SHARE = 0.02
DRIFTED_SHARE = 0.05  # of the spin's time
_SPINS, _SPIN_STEPS = 20, 10_000

CpuTime = Callable[[], int]  # nanoseconds that the calling thread has had a processor for


class Ticks(BaseModel):
    """The system's counters of processor time, over all processors, in units of its own; `own` is this process."""

    model_config = ConfigDict(frozen=True)

    total: int
    busy: int
    stolen: int
    own: int


class Conditions(BaseModel):
    """One moment. None where the system does not tell; `mhz` are the slowest and the fastest processor, `throttled`
    counts how often heat or a control group's quota has held the processors back, `spin_s` is the time of a fixed
    amount of integer work."""

    model_config = ConfigDict(frozen=True)

    at_ns: int
    spin_s: float
    load: float | None
    ticks: Ticks | None
    mhz: tuple[float, float] | None
    throttled: int | None


def look(clock: Clock, root: Path = ROOT, cpu_time_ns: CpuTime = time.thread_time_ns) -> Conditions:
    """Takes some 20 ms, nearly all of it the spin."""
    ticks = _ticks(root)
    return Conditions(
        at_ns=clock.now_ns(),
        load=_load(root),
        ticks=ticks,
        mhz=_mhz(root),
        throttled=_throttled(root),
        spin_s=spin_s(cpu_time_ns),
    )


def spin_s(cpu_time_ns: CpuTime = time.thread_time_ns) -> float:
    """The least processor time of a few runs of the same integer work: only a slower clock makes all of them longer,
    for the time in which others have the processor does not count."""
    times: list[int] = []
    for _ in range(_SPINS):
        start_ns = cpu_time_ns()
        value = 1
        for _ in range(_SPIN_STEPS):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
        times.append(cpu_time_ns() - start_ns)
    return seconds(min(times))


def disturbances(seen: Sequence[Conditions]) -> list[str]:
    """A sentence each for a machine under load, stolen time, a drifting clock and throttling, from the first moment to
    the last."""
    if len(seen) < 2:
        return []
    first, last = seen[0], seen[-1]
    found = (_loaded(first, last), _stolen(first, last), _drifting(seen), _held_back(first, last))
    return [sentence for sentence in found if sentence]


def _loaded(first: Conditions, last: Conditions) -> str | None:
    if not (first.ticks and last.ticks) or last.ticks.total <= first.ticks.total:
        return None
    others = (last.ticks.busy - first.ticks.busy) - (last.ticks.own - first.ticks.own)
    share = others / (last.ticks.total - first.ticks.total)
    if share <= LOADED_SHARE:
        return None
    load = "" if first.load is None else f" (load average before: {first.load:.1f})"
    return (
        f"The machine was under load: other programs used {share:.0%} of its processors meanwhile{load}. Stop them and "
        "measure again, or take the figures for what a busy machine gives."
    )


def _stolen(first: Conditions, last: Conditions) -> str | None:
    if not (first.ticks and last.ticks) or last.ticks.total <= first.ticks.total:
        return None
    share = (last.ticks.stolen - first.ticks.stolen) / (last.ticks.total - first.ticks.total)
    if share <= STOLEN_SHARE:
        return None
    return f"The host of this virtual machine took {share:.0%} of its processor time for others (steal time)."


def _drifting(seen: Sequence[Conditions]) -> str | None:
    times = [conditions.spin_s for conditions in seen]
    shortest, longest = min(times), max(times)
    if shortest <= 0 or longest / shortest - 1 <= DRIFTED_SHARE:
        return None
    return (
        "The processor's clock drifted, or others shared its cores: the same integer work took between "
        f"{shortest * 1e3:.2f} and {longest * 1e3:.2f} ms ({longest / shortest - 1:.0%} apart)."
    )


def _held_back(first: Conditions, last: Conditions) -> str | None:
    if first.throttled is None or last.throttled is None or last.throttled <= first.throttled:
        return None
    return (
        f"The processors were held back {last.throttled - first.throttled} times meanwhile, by heat or by a "
        "container's quota."
    )


def _ticks(root: Path) -> Ticks | None:
    """Source: proc(5), /proc/stat and /proc/pid/stat; `user` holds the time of guests too."""
    with suppress(OSError, ValueError, IndexError):
        words = (root / "proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        user, nice, system, idle, waiting, interrupt, soft, stolen = map(int, words[1:9])
        own = (root / "proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        busy = user + nice + system + interrupt + soft
        total = busy + idle + waiting + stolen
        return Ticks(total=total, busy=busy, stolen=stolen, own=int(own[11]) + int(own[12]))
    return None


def _load(root: Path) -> float | None:
    with suppress(OSError, ValueError, IndexError):
        return float((root / "proc/loadavg").read_text(encoding="ascii").split()[0])
    return None


def _mhz(root: Path) -> tuple[float, float] | None:
    """From cpufreq; on virtual machines, which have none, from what the processor says of itself."""
    found: list[float] = []
    for file in sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")):
        with suppress(OSError, ValueError):
            found.append(int(file.read_text(encoding="ascii")) / 1e3)
    if not found:
        with suppress(OSError, ValueError):
            told = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
            found = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)$", told, re.M)]
    return (min(found), max(found)) if found else None


def _throttled(root: Path) -> int | None:
    found: list[int] = []
    for file in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        with suppress(OSError, ValueError):
            found.append(int(file.read_text(encoding="ascii")))
    with suppress(OSError):
        told = (root / "sys/fs/cgroup/cpu.stat").read_text(encoding="ascii")
        found += [int(count) for count in re.findall(r"^nr_throttled (\d+)$", told, re.M)]
    return sum(found) if found else None
