"""Stages whose time is made of known parts, under the noise of a real machine: what a verdict must find is planted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiling import operations as op
from profiling.calibration import Calibration, Rates, Sample
from profiling.environment import Machine
from profiling.interval import Interval
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import Stage
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook

READ, RATE = "read, 2 threads", "float32, 2 threads"
_MACHINE = Machine.this()
_LOOP_KEYS = {op.TOKEN: (op.KV_BYTES, v.LLM_KV_BYTES), op.PATCH: (op.FORWARDS, v.TTS_FORWARDS)}
_STEP_KEYS = {op.TOKENS: v.LLM_EVALUATED_TOKENS, op.UNITS: v.TTS_UNITS, op.ENCODED_S: v.ASR_ENCODED_S}
_STAGES = {
    op.TOKEN: Stage.LLM_DECODE,
    op.PATCH: Stage.TTS_PATCHES,
    op.PREFILL: Stage.LLM_PREFILL,
    op.SETUP: Stage.TTS_SETUP,
    op.ASR_STEP: Stage.ASR_PARTIAL,
}


@dataclass(frozen=True)
class Planted:
    """A stage: what its work is, what it costs above its floor, the units of its operations when calibrated and in the
    run, and by how much work beside it slows the share of them that it lies beside."""

    operation: str
    work: OperationWork
    per_step_s: float = 0.0
    fixed_s: float = 0.0
    calibrated: Sequence[Mapping[str, float]] = ()
    run: Sequence[Mapping[str, float]] = ()
    slowed: float = 1.0
    beside: float = 0.0

    def parts_s(self, units: Mapping[str, float], rates: Mapping[str, float]) -> tuple[float, float]:
        """Floor, and what comes on top."""
        floor_s = sum(term.seconds(rates) for term in self.work.at(units).values())
        return floor_s, self.fixed_s + self.per_step_s * self.work.steps.at(units)


@dataclass(frozen=True)
class World:
    """A machine at the time of the calibration and at that of the run: true rates, and how far kernels stay below."""

    then: Mapping[str, float]
    now: Mapping[str, float]
    slowness: float
    random: np.random.Generator

    @classmethod
    def of(cls, seed: int) -> "World":
        """The bandwidth drifts within 26 to 58 GB/s, the arithmetic by a tenth."""
        random = np.random.default_rng(seed)
        (read_then, read_now), (rate_then, rate_now) = random.uniform(26e9, 58e9, 2), random.uniform(72e9, 88e9, 2)
        then, now = {READ: read_then, RATE: rate_then}, {READ: read_now, RATE: rate_now}
        return cls(then, now, random.uniform(0, 0.1), random)

    def noisy(self, seconds: float) -> float:
        """8 % of spread, and one in fifty is slow."""
        outlier = self.random.uniform(1.5, 4) if self.random.random() < 0.02 else 1
        return seconds * outlier * float(np.exp(self.random.normal(0, 0.08)))

    def probes(self, rates: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
        return {
            name: tuple(float(x) for x in rate * np.exp(self.random.normal(0, 0.04, 9))) for name, rate in rates.items()
        }

    def calibration(self, planted: Planted) -> Calibration:
        samples: list[Sample] = []
        for units in planted.calibrated:
            floor_s, more_s = planted.parts_s(units, self.then)
            alone_s = self.noisy(floor_s * (1 + self.slowness) + more_s)
            samples.append(Sample(operation=planted.operation, duration_s=alone_s, units=units))
        rates = [
            Rates(name=key.split(",")[0], unit="per s", device="cpu", threads=2, values=values)
            for key, values in self.probes(self.then).items()
        ]
        return calibration(samples, rates)

    def ceilings(self) -> dict[str, Interval]:
        return {name: Interval.of_median(values) for name, values in self.probes(self.now).items()}

    def turn(self, planted: Planted) -> Turn:
        """The operations one after another; work of another engine lies beside those that are slowed."""
        durations: list[float] = []
        slowed = int(planted.beside * len(planted.run))
        for number, units in enumerate(planted.run):
            floor_s, more_s = planted.parts_s(units, self.now)
            alone_s = floor_s * (1 + self.slowness) + more_s
            durations.append(self.noisy(alone_s * (planted.slowed if number < slowed else 1)))
        turn = turn_of(planted.operation, durations, planted.run)
        if slowed:
            other = Stage.ASR_PARTIAL if planted.operation.startswith(("llm", "tts")) else Stage.LLM_PREFILL
            turn.add(other, 0, _ns(sum(durations[:slowed])))
        return turn


def calibration(samples: Sequence[Sample], rates: Sequence[Rates] = ()) -> Calibration:
    return Calibration(made="", machine=_MACHINE, engines={}, samples=tuple(samples), ceilings=tuple(rates))


def book(operation: str, work: OperationWork) -> WorkBook:
    return WorkBook(operations={operation: work})


def turn_of(operation: str, durations_s: Sequence[float], units: Sequence[Mapping[str, float]]) -> Turn:
    """A turn that holds these operations, one right after another: the passes of one step, or a step each."""
    turn = Turn("simulated", 1, 0)
    ends = np.cumsum([_ns(duration) for duration in durations_s]).tolist()
    starts = [0, *ends[:-1]]
    if operation in _LOOP_KEYS:
        unit, key = _LOOP_KEYS[operation]
        told: dict[str, Attribute] = {v.START_TIMES_NS: starts, v.END_TIMES_NS: ends}
        known = [each[unit] for each in units if unit in each]
        turn.add(_STAGES[operation], 0, ends[-1], attributes=told | ({key: known} if known else {}))
        return turn
    for start, end, each in zip(starts, ends, units, strict=True):
        facts: dict[str, Attribute] = {_STEP_KEYS[unit]: value for unit, value in each.items() if unit in _STEP_KEYS}
        if op.PASSES in each:
            facts |= {v.START_TIMES_NS: [0] * int(each[op.PASSES]), v.END_TIMES_NS: [1] * int(each[op.PASSES])}
        turn.add(_STAGES[operation], start, end, attributes=facts)
    return turn


def work(
    *,
    flops: float = 0,
    flops_per: Mapping[str, float] | None = None,
    read: float = 0,
    read_per: Mapping[str, float] | None = None,
    steps: Linear | None = None,
) -> OperationWork:
    """Of one part."""
    law = TermLaw(
        part="all",
        rate=RATE,
        read=READ,
        flops=Linear(constant=flops, per=flops_per or {}),
        bytes=Linear(constant=read, per=read_per or {}),
    )
    return OperationWork(terms=(law,), steps=steps or Linear(constant=1))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


# Kinds of stages, by the verdict that each must get


def _tokens(random: np.random.Generator, count: int) -> list[dict[str, float]]:
    return [{op.KV_BYTES: float(random.integers(100, 900) * 10_000)} for _ in range(count)]


def bandwidth_bound(world: World) -> Planted:
    decode = work(flops=2e7, read=100e6, read_per={op.KV_BYTES: 1})
    return Planted(op.TOKEN, decode, 0.3e-3, calibrated=_tokens(world.random, 40), run=_tokens(world.random, 50))


def compute_bound(world: World) -> Planted:
    prefill = work(flops_per={op.TOKENS: 0.25e9}, read=100e6)
    sizes = [{op.TOKENS: float(tokens)} for tokens in (16, 32, 64, 128, 256) for _ in range(5)]
    run = [{op.TOKENS: float(world.random.integers(20, 200))} for _ in range(30)]
    return Planted(op.PREFILL, prefill, fixed_s=15e-3, calibrated=sizes, run=run)


_DIFFUSION = work(flops=1e7, read=50e6, read_per={op.FORWARDS: 30e6}, steps=Linear(constant=1, per={op.FORWARDS: 1}))
_SWEEP = [{op.FORWARDS: float(forwards)} for forwards in (3, 5, 7, 9, 11) for _ in range(8)]
_NINE = [{op.FORWARDS: 9.0}] * 40


def serial_steps(world: World) -> Planted:
    return Planted(op.PATCH, _DIFFUSION, 4e-3, 5e-3, _SWEEP, _NINE)


def loop_overhead(world: World) -> Planted:
    decode = work(flops=2e7, read=20e6, read_per={op.KV_BYTES: 1})
    return Planted(op.TOKEN, decode, 3e-3, calibrated=_tokens(world.random, 40), run=_tokens(world.random, 50))


def steps_with_a_fixed_part(world: World) -> Planted:
    passes = work(read_per={op.PASSES: 80e6}, flops_per={op.PASSES: 1e7}, steps=Linear(per={op.PASSES: 1}))
    sizes = [{op.PASSES: float(count)} for count in (1, 2, 3, 4, 5) for _ in range(8)]
    run = [{op.PASSES: float(world.random.integers(1, 4))} for _ in range(40)]
    return Planted(op.ASR_STEP, passes, 3e-3, 40e-3, sizes, run)


def fixed_cost(world: World) -> Planted:
    setup = work(flops_per={op.UNITS: 1e7}, read=50e6)
    sizes = [{op.UNITS: float(units)} for units in (10, 20, 40, 60, 80, 100) for _ in range(4)]
    run = [{op.UNITS: float(world.random.integers(10, 100))} for _ in range(20)]
    return Planted(op.SETUP, setup, fixed_s=60e-3, calibrated=sizes, run=run)


def contended(world: World) -> Planted:
    decode = work(flops=2e7, read=100e6, read_per={op.KV_BYTES: 1})
    calibrated, run = _tokens(world.random, 40), _tokens(world.random, 50)
    return Planted(op.TOKEN, decode, 0.3e-3, 0, calibrated, run, slowed=3.5, beside=0.9)


def beside_other_work_yet_not_slowed(world: World) -> Planted:
    return replace(bandwidth_bound(world), beside=0.9)


def as_much_reading_as_steps(world: World) -> Planted:
    """What the calibration finds above the floor is as long as the floor of the run."""
    decode = work(read=100e6, read_per={op.KV_BYTES: 1})
    mean_bytes = 100e6 + 5e6
    per_step_s = mean_bytes / world.now[READ] - world.slowness * mean_bytes / world.then[READ]
    return Planted(op.TOKEN, decode, per_step_s, calibrated=_tokens(world.random, 40), run=_tokens(world.random, 50))


def as_much_fixed_as_steps(world: World) -> Planted:
    return Planted(op.PATCH, _DIFFUSION, 4e-3, 40e-3, _SWEEP, _NINE)


def as_much_arithmetic_as_reading(world: World) -> Planted:
    """Two parts, each bound by one of the ceilings, equally long at the time of the run."""
    seconds = 4e-3
    reading = TermLaw(part="a", rate=RATE, read=READ, bytes=Linear(constant=seconds * world.now[READ]))
    computing = TermLaw(part="b", rate=RATE, read=READ, flops=Linear(constant=seconds * world.now[RATE]))
    decode = OperationWork(terms=(reading, computing))
    return Planted(op.TOKEN, decode, 0.5e-3, calibrated=_tokens(world.random, 40), run=_tokens(world.random, 50))


Kind = Callable[[World], Planted]
