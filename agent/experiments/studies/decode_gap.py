"""Tokens of the model's file at several depths, and of copies of it in other formats and with half of its layers at
one; round by round, memory being read before and after each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agent.engine_choice import choose
from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget, to_and_fro
from agent.experiments.calibration.measure_llm import measure_decode
from agent.experiments.studies.copies import Copy, copies_of, fits, write
from agent.experiments.studies.llm_file import prober, read_rates, require_file, shown_name
from agent.experiments.studies.nodes import node_times
from agent.experiments.studies.study import Bench
from agent.experiments.workload.laws import LlmLaw
from agent.experiments.workload.weights import of_gguf
from agent.llm.gguf_header import GgufHeader
from agent.llm.llama import LlamaEngine
from agent.loading import load_llm
from agent.temporary import temporary_folder
from profiling.calibration import Sample
from profiling.machine.probe import Prober
from profiling.studies.decode_gap import File, decode_gap_finding
from profiling.studies.finding import Finding

_DEEP_TOKENS, _SHALLOW_TOKENS = 2304, 256  # of context: what is prefilled takes up to half of it
_DEEPEST, _SPARE = 1024, 32  # tokens before those whose nodes are timed
_MOST_ROUNDS = 12
_COPYING = 2.0  # times the budget of the measurements, at most, before the last copy is begun
_VISIT = 0.05  # of the budget, at one copy


def run(bench: Bench) -> Finding:
    path = require_file(bench.settings)
    header = GgufHeader(path)
    if "_exps." in "".join(tensor.name for tensor in header.tensors):
        raise TurnscopeError(
            f"{path.name} is a mixture of experts, of which no two tokens read the same: study a dense model."
        )
    probe, own_format = prober(bench), LlmLaw(path).format
    with temporary_folder() as folder:
        copies, notes = _copies(bench, path, header, own_format, folder)
        context = bench.settings.llm.context_tokens or min(_DEEP_TOKENS, header.integer("context_length"))
        own = _Visited(own_format, path, context)
        files = [own, *(_Visited(copy.name, at, _SHALLOW_TOKENS) for copy, at in copies.items())]
        budget = Budget(bench.clock, bench.budget_s)
        for number, file in budget.interleaved(files, most=_MOST_ROUNDS, order=to_and_fro):
            bench.tell(f"tokens of {file.name}, round {number + 1}")
            file.visit(bench, probe)
        silent = [file.name for file in files if not file.samples]
        if own.name in silent:
            raise TurnscopeError(f"{path.name} wrote no tokens whose bytes are known: study another model.")
        notes += [f"The copy {name} wrote too little to be measured." for name in silent]
        measured = [file.as_file() for file in files if file.samples]
    bench.tell("the nodes of a token's graph")
    nodes = node_times(bench, path, min(_DEEPEST, context // 2 - _SPARE))
    return decode_gap_finding(shown_name(bench.settings), measured[0], measured[1:], nodes, notes)


def _copies(
    bench: Bench, path: Path, header: GgufHeader, own_format: str, folder: Path
) -> tuple[Mapping[Copy, Path], list[str]]:
    """Those that could be made, and a sentence on the others."""
    made: dict[Copy, Path] = {}
    parameters = sum(weight.elements for weight in of_gguf(header))
    budget, left_out = Budget(bench.clock, _COPYING * bench.budget_s), list[str]()
    for copy in copies_of(header, own_format):
        target = folder / f"{copy.name}.gguf"
        bench.tell(f"a copy in {copy.name}")
        if budget.spent or not fits(copy, parameters, folder):
            left_out.append(copy.name)
        elif write(path, target, copy, header.integer("block_count")):
            made[copy] = target
        else:
            left_out.append(copy.name)
    if not left_out:
        return made, []
    return made, [f"Without copies in {', '.join(left_out)}: no time or room for them, or llama.cpp cannot make them."]


@dataclass
class _Visited:
    """A file, with what was measured of it."""

    name: str
    path: Path
    context_tokens: int
    samples: list[Sample] = field(default_factory=list[Sample])
    bytes_per_s: list[float] = field(default_factory=list[float])

    def visit(self, bench: Bench, probe: Prober) -> None:
        llm = bench.settings.llm.model_copy(
            update={"model": str(self.path), "context_tokens": self.context_tokens, "draft": None}
        )
        settings = bench.settings.model_copy(update={"llm": llm})
        engine = cast(LlamaEngine, load_llm(settings, choose(settings), bench.clock))
        engine.warm_up([])
        self.bytes_per_s += read_rates(probe.read(bench.clock))
        self.samples += measure_decode(engine, Budget(bench.clock, _VISIT * bench.budget_s))
        self.bytes_per_s += read_rates(probe.read(bench.clock))
        engine.close()

    def as_file(self) -> File:
        weights = _read_by_a_token(self.path)
        elements: dict[str, float] = {}
        sizes: dict[str, float] = {}
        for name, count, size in weights:
            elements[name], sizes[name] = elements.get(name, 0) + count, size
        return File(
            self.name,
            LlmLaw(self.path).weight_bytes,
            elements,
            sizes,
            tuple(self.samples),
            tuple(self.bytes_per_s),
        )


def _read_by_a_token(path: Path) -> Sequence[tuple[str, int, float]]:
    """Format, elements and the bytes of one, of the tensors that are multiplied whole: not an embedding of which one
    row is picked, where the output head is another tensor."""
    header = GgufHeader(path)
    has_head = any(tensor.name == "output.weight" for tensor in header.tensors)
    return [
        (tensor.format, weight.elements, weight.element_bytes)
        for tensor, weight in zip(header.tensors, of_gguf(header), strict=True)
        if not (has_head and tensor.name == "token_embd.weight")
    ]
