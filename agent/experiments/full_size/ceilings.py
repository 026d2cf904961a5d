"""The ceilings of this machine, measured right before and right after what they are to explain."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.settings import Placed, load_llama
from agent.experiments.prompts import prefill
from agent.experiments.workload.names import LLAMA_READ, Q4_0
from agent.experiments.workload.weights import of_gguf
from agent.llm.gguf_header import GgufHeader
from profiling.machine import Ceiling, matmul_rate, read_bandwidth
from profiling.roofline import READ
from profiling.trace.clock import NS_PER_S, Clock


@dataclass
class Ceilings:
    """Measures by name: READ, LLAMA_READ, a PyTorch dtype, or Q4_0, which is llama.cpp's arithmetic in one batch
    through `llama_file`, a few layers as wide as those of the big file. `all` keeps what was measured by what it was to
    explain."""

    clock: Clock
    threads: int
    effort: Effort
    llama_file: Path | None = None
    all: dict[str, dict[str, Ceiling]] = field(default_factory=dict[str, dict[str, Ceiling]])

    @contextmanager
    def around(self, what: str, wanted: Mapping[str, str]) -> Iterator[dict[str, Ceiling]]:
        """Ceilings, each with its device, around the block: those of after it are pooled with those of before it."""
        found = self.all[what] = {name: self._measure(name, device) for name, device in wanted.items()}
        yield found
        for name, device in wanted.items():
            found[name] = found[name].with_more(self._measure(name, device))

    def _measure(self, name: str, device: str) -> Ceiling:
        effort, repetitions = self.effort, self.effort.ceiling_repetitions
        if name in (READ, LLAMA_READ):
            return read_bandwidth(
                self.clock,
                device=device,
                threads=self.threads,
                repetitions=repetitions,
                probe=effort.probe,
            )
        if name == Q4_0:
            return self._q4_0(device)
        return matmul_rate(
            self.clock,
            name,
            device=device,
            threads=self.threads,
            repetitions=repetitions,
            probe=effort.probe,
        )

    def _q4_0(self, device: str) -> Ceiling:
        if self.llama_file is None:
            raise ValueError("there is no file to measure llama.cpp's arithmetic with")
        tensors = of_gguf(GgufHeader(self.llama_file))
        matrices = [w for w in tensors if len(w.shape) > 1 and w.name != "token_embd.weight"]
        flops_of_token = 2 * sum(weight.elements for weight in matrices)
        placed = Placed(device, self.threads)
        engine = load_llama(self.llama_file, placed, self.clock)
        numbers = range(1 + self.effort.ceiling_repetitions)  # the first warms up
        with closing(engine):
            prefills = [prefill(engine, placed.batch_tokens, number) for number in numbers]
        rates = [
            flops_of_token * (done.evaluated_tokens or 0) * NS_PER_S / (done.end_ns - done.start_ns)
            for done in prefills[1:]
        ]
        return Ceiling("Q4_0 matrix product", "FLOP/s", device, self.threads, tuple(rates))
