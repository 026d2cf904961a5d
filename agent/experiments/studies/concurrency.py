"""Steps that give 1, 2, 4 ... replies a token each, up to twice the predicted ridge: every number of them once a round,
up and down in turn, with a look at the machine before each round."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from agent import devices
from agent.experiments.calibration.budget import Budget, to_and_fro
from agent.experiments.studies.llm_file import prober, read_rates, require_file, shown_name
from agent.experiments.studies.opened import opened_model, opened_streams
from agent.experiments.studies.streams import Streams, most_streams
from agent.experiments.studies.study import Bench
from agent.experiments.workload.book import LLM
from agent.experiments.workload.laws import LlmLaw
from agent.llm.gguf import GgufModel
from profiling.machine.caches import free_memory_bytes
from profiling.machine.probe import Prober
from profiling.roofline import ridge_batch
from profiling.studies.concurrency import Decoding, concurrency_finding
from profiling.studies.finding import Finding
from profiling.trace.clock import Clock, seconds

_LEAST_STREAMS = 8  # are measured wherever the ridge is
_STEPS = 6  # timed in a row, after one that is not
_PROMPT_TOKENS = 128  # whose speed is taken for that of the arithmetic
_LEAST_ROUNDS, _MOST_ROUNDS = 2, 40
_FIRST_LOOKS = 3  # before the number of streams is chosen
_STREAM_TOKENS = 256  # of KV cache: llama.cpp gives no stream less
_FREE_SHARE = 4  # of the free memory, the caches take at most one part in so many
_NOTE = "All replies are at their beginning, where the KV cache is nearly empty; tokens are evaluated, not chosen."


def run(bench: Bench) -> Finding:
    path = require_file(bench.settings)
    bench.tell("loading the language model")
    with closing(opened_model(bench, path)) as model:
        return _study(bench, path, model)


def _study(bench: Bench, path: Path, model: GgufModel) -> Finding:
    law = LlmLaw(path)
    work = Decoding(law.weight_bytes, law.parameters + law.head_parameters)
    tokens = [int(n) for n in np.random.default_rng(0).integers(0, model.vocab_tokens, _PROMPT_TOKENS)]
    prompt_flops = 2.0 * (law.parameters * _PROMPT_TOKENS + law.head_parameters)
    measuring = _Measuring(bench.clock, prober(bench), tokens, prompt_flops)
    bench.tell("the machine and a prompt")
    with closing(_opened(bench, model, 1)) as one:
        for _ in range(_FIRST_LOOKS):
            measuring.look(one)
    ridge = ridge_batch(median(measuring.flops_per_s), median(measuring.bytes_per_s), work.bits_per_weight)
    counts = _doubled(max(_LEAST_STREAMS, 2 * ridge))
    fitting = [count for count in counts if count <= _most(bench, law)]
    bench.tell(f"up to {fitting[-1]} replies at once")
    with closing(_opened(bench, model, fitting[-1])) as streams:
        measuring.rounds(streams, fitting, Budget(bench.clock, bench.budget_s))
    left_out = () if fitting == counts else (f"More than {fitting[-1]} streams do not fit, and were not measured.",)
    return concurrency_finding(
        shown_name(bench.settings),
        work,
        measuring.steps_s,
        measuring.bytes_per_s,
        measuring.flops_per_s,
        (*left_out, _NOTE),
    )


@dataclass
class _Measuring:
    """`tokens` are evaluated, as a prompt of `prompt_flops` operations or as the streams' next ones."""

    clock: Clock
    prober: Prober
    tokens: Sequence[int]
    prompt_flops: float
    bytes_per_s: list[float] = field(default_factory=list[float])
    flops_per_s: list[float] = field(default_factory=list[float])
    steps_s: dict[int, list[float]] = field(default_factory=dict[int, list[float]])

    def look(self, streams: Streams) -> None:
        """At memory and arithmetic; the first prompt warms up."""
        self.bytes_per_s += read_rates(self.prober.read(self.clock))
        for timed in (False, True):
            streams.clear()
            start_ns = self.clock.now_ns()
            streams.prompt(self.tokens)
            if timed:
                self.flops_per_s.append(self.prompt_flops / seconds(self.clock.now_ns() - start_ns))

    def rounds(self, streams: Streams, counts: Sequence[int], budget: Budget) -> None:
        for number in budget.rounds(least=_LEAST_ROUNDS, most=_MOST_ROUNDS):
            self.look(streams)
            for count in to_and_fro(number, counts):
                self._steps(streams, count)

    def _steps(self, streams: Streams, count: int) -> None:
        streams.clear()
        for number in range(1 + _STEPS):
            start_ns = self.clock.now_ns()
            streams.step([self.tokens[(stream + number) % len(self.tokens)] for stream in range(count)])
            if number:
                self.steps_s.setdefault(count, []).append(seconds(self.clock.now_ns() - start_ns))


def _opened(bench: Bench, model: GgufModel, count: int) -> Streams:
    return opened_streams(bench, model, count, _STREAM_TOKENS, prompt_tokens=_PROMPT_TOKENS)


def _doubled(least: float) -> list[int]:
    """1, 2, 4 ... to the first that is not less."""
    counts = [1]
    while counts[-1] < least:
        counts.append(2 * counts[-1])
    return counts


def _most(bench: Bench, law: LlmLaw) -> int:
    """As many streams as llama.cpp can have, and on a CPU as the free memory has room for; one in any case."""
    if bench.book.devices[LLM] != devices.CPU:
        return most_streams()
    room = free_memory_bytes() // _FREE_SHARE // max(1, law.kv_bytes(_STREAM_TOKENS))
    return max(1, min(most_streams(), room))
