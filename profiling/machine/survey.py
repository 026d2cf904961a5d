"""Everything that can be measured of a machine, measured once, for a file that later runs take it from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from profiling.calibration import CPU
from profiling.environment import Machine
from profiling.machine import cuda, overhead
from profiling.machine.bandwidth import ROUNDS, bandwidth_ceiling, bandwidth_warnings, read_over_sizes
from profiling.machine.caches import Sizes, cache_or_guess_bytes, free_memory_bytes, sizes_for
from profiling.machine.compute import TORCH_TYPES, numpy_product, torch_is_installed, torch_product
from profiling.machine.conditions import Conditions, disturbances, look
from profiling.machine.drift import drifting_rates
from profiling.machine.gpu_clocks import GpuClock, held_back
from profiling.machine.kernels import ROOT, instruction_sets
from profiling.machine.measured import MeasuredCeiling, Overhead
from profiling.machine.probe import LONGEST_S, MOST_BYTES, Prober, ProbeReading
from profiling.machine.reading import ROW_BYTES, reader
from profiling.trace.clock import NS_PER_S, Clock, seconds

FORMAT = 1
Tell = Callable[[str], None]
_CUDA_SMALLEST_BYTES = 1 << 30


@dataclass(frozen=True)
class Effort:
    """`width` of the matrices on the CPU; `each_s` that one product lasts about; `memory_bytes` at most, or what is
    free; `calls` of an empty step in one timed batch."""

    rounds: int = ROUNDS
    repetitions: int = 7
    each_s: float = 0.12
    width: int = 2048
    memory_bytes: int | None = None
    smallest_bytes: int = 64 << 20
    probe_s: float = LONGEST_S
    probe_bytes: int = MOST_BYTES
    torch_types: tuple[str, ...] = TORCH_TYPES
    calls: int = overhead.CALLS


FULL = Effort()


class Survey(BaseModel):
    """`made` is a UTC time; `devices` are the CUDA devices' names by device, `gpus` their clocks; `probes` are those of
    before and after; `cache_bytes` is the CPU's last cache; `warnings` are sentences about what disturbed it."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    made: datetime
    machine: Machine
    devices: Mapping[str, str] = {}
    instruction_sets: tuple[str, ...] = ()
    cache_bytes: int | None = None
    ceilings: tuple[MeasuredCeiling, ...] = ()
    overheads: tuple[Overhead, ...] = ()
    probes: tuple[ProbeReading, ...] = ()
    conditions: tuple[Conditions, ...] = ()
    gpus: Mapping[str, GpuClock] = {}
    warnings: tuple[str, ...] = ()
    took_s: float = 0.0

    def with_ceilings(self, more: Sequence[MeasuredCeiling]) -> "Survey":
        """With ceilings that only an engine can measure, each in the place of an older one of the same name and
        place."""
        new = {_place(ceiling): ceiling for ceiling in more}
        kept = tuple(ceiling for ceiling in self.ceilings if _place(ceiling) not in new)
        return self.model_copy(update={"ceilings": (*kept, *new.values())})


def survey(
    clock: Clock,
    tell: Tell,
    *,
    devices: Mapping[str, str] | None = None,
    effort: Effort = FULL,
    threads: Sequence[int] | None = None,
    root: Path = ROOT,
) -> Survey:
    """Measure the CPU with one thread and with all usable cores (or `threads`), then every CUDA device of `devices`
    (`cuda:0` and so on, with names). PyTorch is measured where it is installed. `tell` hears what is being done."""
    work = _Survey(clock, tell, effort, root, threads or _thread_counts(Machine.this().usable_cores))
    return work.run(devices or {})


@dataclass
class _Survey:
    clock: Clock
    tell: Tell
    effort: Effort
    root: Path
    threads: Sequence[int]
    ceilings: list[MeasuredCeiling] = field(default_factory=list[MeasuredCeiling])
    overheads: list[Overhead] = field(default_factory=list[Overhead])
    probes: list[ProbeReading] = field(default_factory=list[ProbeReading])
    seen: list[Conditions] = field(default_factory=list[Conditions])
    gpus: dict[str, GpuClock] = field(default_factory=dict[str, GpuClock])
    warnings: list[str] = field(default_factory=list[str])

    def run(self, devices: Mapping[str, str]) -> Survey:
        start_ns = self.clock.now_ns()
        self.tell("looking at the machine")
        places = [*((CPU, count) for count in self.threads), *((device, 1) for device in devices)]
        self._probe(places)
        for step, what in self._steps(devices):
            self.tell(step)
            what()
            self.seen.append(look(self.clock, self.root))
        self._probe(places)
        return self._result(devices, start_ns)

    def _steps(self, devices: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], None]]]:
        for count in self.threads:
            with_threads = f"with {count} thread{'s' if count > 1 else ''}"
            yield f"reading memory {with_threads}", lambda count=count: self._cpu_bandwidth(count)
            yield f"multiplying float32 in numpy {with_threads}", lambda count=count: self._numpy(count)
        yield "calling numpy", lambda: self.overheads.append(overhead.numpy_call(self.clock, calls=self.effort.calls))
        if not torch_is_installed():
            return
        yield (
            "loading and calling PyTorch",
            lambda: self.overheads.append(overhead.torch_call(self.clock, calls=self.effort.calls)),
        )
        for dtype in self.effort.torch_types:
            for count in self.threads:
                step = f"multiplying {dtype} in PyTorch with {count} thread{'s' if count > 1 else ''}"
                yield step, lambda dtype=dtype, count=count: self._torch(dtype, CPU, count)
        for device, name in devices.items():
            yield f"reading the memory of {name}", lambda device=device: self._cuda_bandwidth(device)
            for dtype in self.effort.torch_types:
                step = f"multiplying {dtype} on {name}"
                yield step, lambda dtype=dtype, device=device: self._torch(dtype, device, 1)
            yield f"launching kernels on {name}", lambda device=device: self._launches(device)

    def _probe(self, places: Sequence[tuple[str, int]]) -> None:
        self.seen.append(look(self.clock, self.root))
        for device, threads in places:
            self.tell("probing what later runs are compared with")
            prober = Prober(threads=threads, device=device, most_bytes=self.effort.probe_bytes, root=self.root)
            self.probes.append(prober.read(self.clock, limit_s=self.effort.probe_s))
        self.seen.append(look(self.clock, self.root))

    def _cpu_bandwidth(self, threads: int) -> None:
        free = min(free_memory_bytes(self.root), self.effort.memory_bytes or free_memory_bytes(self.root))
        sizes = sizes_for(
            cache_or_guess_bytes(self.root), free, unit_bytes=ROW_BYTES, smallest_bytes=self.effort.smallest_bytes
        )
        self._bandwidth(CPU, threads, sizes, f"{threads} CPU thread{'s' if threads > 1 else ''}")

    def _cuda_bandwidth(self, device: str) -> None:
        cache, free = cuda.l2_cache_bytes(device), cuda.free_bytes(device)
        sizes = sizes_for(cache, free, unit_bytes=ROW_BYTES, smallest_bytes=_CUDA_SMALLEST_BYTES)
        self._bandwidth(device, 1, sizes, device)
        cuda.give_memory_back()

    def _bandwidth(self, device: str, threads: int, sizes: Sizes, where: str) -> None:
        memory = reader(device, threads, sizes.sizes_bytes[-1])
        timings = read_over_sizes(self.clock, memory, sizes.sizes_bytes, rounds=self.effort.rounds)
        ceiling = bandwidth_ceiling(timings, memory)
        self.warnings += bandwidth_warnings(timings, sizes, ceiling and ceiling.interval, where)
        if ceiling:
            self.ceilings.append(ceiling)

    def _numpy(self, threads: int) -> None:
        effort = self.effort
        found = numpy_product(
            self.clock, threads, width=effort.width, repetitions=effort.repetitions, each_s=effort.each_s
        )
        self.ceilings.append(found)

    def _torch(self, dtype: str, device: str, threads: int) -> None:
        effort = self.effort
        found = torch_product(
            self.clock,
            dtype,
            device=device,
            threads=threads,
            width=effort.width,
            repetitions=effort.repetitions,
            each_s=effort.each_s,
        )
        self.ceilings.append(found)

    def _launches(self, device: str) -> None:
        self.overheads += overhead.cuda_launches(self.clock, device, calls=self.effort.calls)
        if clock := cuda.clock_under_work(device):
            self.gpus[device] = clock
            self.warnings += held_back(device, clock)

    def _result(self, devices: Mapping[str, str], start_ns: int) -> Survey:
        probe_warnings = dict.fromkeys(sentence for probe in self.probes for sentence in probe.warnings)
        return Survey(
            made=datetime.fromtimestamp(self.clock.wall_ns() // NS_PER_S, UTC),
            machine=Machine.this(),
            devices=dict(devices),
            instruction_sets=instruction_sets(self.root),
            cache_bytes=cache_or_guess_bytes(self.root),
            ceilings=tuple(self.ceilings),
            overheads=tuple(self.overheads),
            probes=tuple(self.probes),
            conditions=tuple(self.seen),
            gpus=self.gpus,
            warnings=(*self.warnings, *probe_warnings, *disturbances(self.seen), *drifting_rates(self.probes)),
            took_s=seconds(self.clock.now_ns() - start_ns),
        )


def _thread_counts(usable_cores: int) -> tuple[int, ...]:
    return (1, usable_cores) if usable_cores > 1 else (1,)


def _place(ceiling: MeasuredCeiling) -> tuple[str, str, int, str]:
    """Name, device, threads and library."""
    return ceiling.name, ceiling.device, ceiling.threads, ceiling.kernel.partition(" ")[0]
