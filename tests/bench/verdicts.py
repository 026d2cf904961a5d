"""Verdicts on real work of a known kind: matrix times vector, beyond the cache, must be bound by bandwidth, and a large
matrix product by compute.

Each is recorded as an engine's operation would be: the vectors as a loop of tokens, the products as prompts.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from rich.console import Console

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.calibration import CPU, Calibration, Sample, ceiling_key
from profiling.environment import Machine
from profiling.machine.caches import cache_or_guess_bytes, free_memory_bytes, sizes_for
from profiling.machine.measured import FLOAT32
from profiling.machine.openblas import using_threads
from profiling.machine.probe import Prober, ProbeReading
from profiling.machine.survey import Effort, Survey, survey
from profiling.roofline import READ
from profiling.run_evidence import run_ceilings
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, SystemClock
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.verdict import BANDWIDTH, COMPUTE, INCONCLUSIVE
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook
from tests.bench.figure import Figure, load

ROUNDS, TURNS, VECTORS, AGAIN = 5, 4, 6, 4
COLUMNS, WIDTH, ROWS = 8192, 2048, 2048  # of the matrix that vectors are multiplied with, of the products
_OTHER_ROWS = (512, 1024, 1536, 3072)
_SMALL = Effort(rounds=4, torch_types=())
_RATE, _READ = ceiling_key(FLOAT32, CPU, 1), ceiling_key(READ, CPU, 1)


def verdicts(console: Console) -> Iterator[Figure]:
    clock, cpu_s = SystemClock(), time.process_time()
    with using_threads(1):
        products = _Products(clock)
        found = [_causes(console, clock, products) for _ in range(ROUNDS)]
    cpu_s = time.process_time() - cpu_s
    for stage, wanted, claim in (
        (Stage.LLM_DECODE, BANDWIDTH, f"matrix-vector of {products.mib:.0f} MiB"),
        (Stage.LLM_PREFILL, COMPUTE, f"product of {ROWS} x {WIDTH} x {WIDTH}"),
    ):
        causes = Counter(round_of[stage] for round_of in found)
        wrong = ROUNDS - causes[wanted] - causes[INCONCLUSIVE]
        how = f"{', '.join(f'{count} x {cause}' for cause, count in causes.items())}; {cpu_s:.0f} s of CPU, {load()}"
        yield Figure(f"{claim}: {wanted}", 100 * causes[wanted] / ROUNDS, 80, "%", how, at_least=True)
        yield Figure(f"{claim}: wrong", wrong, 0, "", f"verdicts of {ROUNDS} that name another cause")


class _Products:
    """One thread's. The memory is as large as those that the survey reads: what is read again has left the cache."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        sizes = sizes_for(cache_or_guess_bytes(), free_memory_bytes() // 2, unit_bytes=4 * COLUMNS)
        self._rows = [size // (4 * COLUMNS) for size in sizes.sizes_bytes]
        random = np.random.default_rng(0)
        self._large = np.ones((self._rows[-1], COLUMNS), np.float32)
        self._vector = np.ones(COLUMNS, np.float32)
        self._square = random.standard_normal((WIDTH, WIDTH), np.float32)
        self._wide = random.standard_normal((max(_OTHER_ROWS), WIDTH), np.float32)

    @property
    def mib(self) -> float:
        return self._rows[-1] * COLUMNS * 4 / 2**20

    def book(self) -> WorkBook:
        """A token reads so many bytes, four of them for a multiplication and an addition; a prompt has so many rows."""
        token = self._law(flops=Linear(per={op.KV_BYTES: 0.5}), read=Linear(per={op.KV_BYTES: 1}))
        row = Linear(constant=4.0 * WIDTH * WIDTH, per={op.TOKENS: 8.0 * WIDTH})
        prompt = self._law(flops=Linear(per={op.TOKENS: 2.0 * WIDTH * WIDTH}), read=row)
        return WorkBook(operations={op.TOKEN: token, op.PREFILL: prompt}, threads={"llm": 1}, devices={"llm": CPU})

    def calibration(self) -> Calibration:
        """Both at other sizes."""
        samples: list[Sample] = []
        for _ in range(AGAIN):
            samples += [self._sample(op.TOKEN, self._multiply_vector, rows) for rows in self._rows[:-1]]
            samples += [self._sample(op.PREFILL, self._multiply, rows) for rows in _OTHER_ROWS]
        return Calibration(made="", machine=Machine.this(), engines={}, samples=tuple(samples))

    def turn(self, number: int) -> Turn:
        turn = Turn("products", number, self._clock.now_ns())
        start_ns, end_ns = self._timed(self._multiply, ROWS)
        cause = turn.add(Stage.LLM_PREFILL, start_ns, end_ns, attributes={v.LLM_EVALUATED_TOKENS: ROWS})
        rows = self._rows[-1]
        borders = [self._clock.now_ns()]
        for _ in range(VECTORS):
            self._multiply_vector(rows)
            borders.append(self._clock.now_ns())
        offsets = [(start - borders[0], end - borders[0]) for start, end in pairwise(borders)]
        times = {v.START_TIMES_NS: [start for start, _ in offsets], v.END_TIMES_NS: [end for _, end in offsets]}
        read = {v.LLM_KV_BYTES: [4 * COLUMNS * rows] * VECTORS}
        turn.add(Stage.LLM_DECODE, borders[0], borders[-1], [cause], attributes=times | read)
        return turn

    def _law(self, *, flops: Linear, read: Linear) -> OperationWork:
        return OperationWork(terms=(TermLaw(part="product", rate=_RATE, read=_READ, flops=flops, bytes=read),))

    def _sample(self, operation: str, product: Callable[[int], object], rows: int) -> Sample:
        start_ns, end_ns = self._timed(product, rows)
        units = {op.KV_BYTES: 4.0 * COLUMNS * rows} if operation == op.TOKEN else {op.TOKENS: float(rows)}
        return Sample(operation=operation, duration_s=(end_ns - start_ns) / 1e9, units=units)

    def _timed(self, product: Callable[[int], object], rows: int) -> tuple[int, int]:
        start_ns = self._clock.now_ns()
        product(rows)
        return start_ns, self._clock.now_ns()

    def _multiply_vector(self, rows: int) -> object:
        return self._large[:rows] @ self._vector

    def _multiply(self, rows: int) -> object:
        return self._wide[:rows] @ self._square


def _causes(console: Console, clock: Clock, products: _Products) -> Mapping[Stage, str]:
    """A round surveys anew, for what disturbs one survey would disturb all rounds that rest on it."""
    known = survey(clock, lambda _: None, effort=_SMALL, threads=[1])
    prober = Prober(threads=1)
    calibration, probed = products.calibration(), [prober.read(clock)]
    turns = [products.turn(number) for number in range(1, TURNS + 1)]
    probed.append(prober.read(clock))
    return _attributed(console, turns, products.book(), known, calibration, probed)


def _attributed(
    console: Console,
    turns: Sequence[Turn],
    book: WorkBook,
    known: Survey,
    calibration: Calibration,
    probed: Sequence[ProbeReading],
) -> Mapping[Stage, str]:
    ceilings = run_ceilings(book, known, calibration, probed)
    found = Attributor(turns, book, ceilings, calibration).run()
    for one in found:
        shares = ", ".join(f"{name} {share.value / one.seconds:.0%}" for name, share in one.shares.items())
        console.print(f"  {one.stages[0]}: {one.verdict.cause} ({shares})", highlight=False)
    return {one.stages[0]: one.verdict.cause for one in found}
