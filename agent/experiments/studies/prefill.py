"""Prompts of several lengths, none of which the KV cache knows, over and over in an order that no drift tilts."""

from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.calibration.measure_llm import measure_prefill
from agent.experiments.studies.study import Bench
from profiling import operations as op
from profiling.studies.finding import Finding
from profiling.studies.prefill import prefill_finding


def run(bench: Bench) -> Finding:
    llm = bench.llm
    bench.tell("prompts of several lengths")
    samples = list(measure_prefill(llm, Budget(bench.clock, bench.budget_s)))
    if not samples:
        raise TurnscopeError(f"{llm.model} does not tell how many tokens it evaluates: study one that does.")
    work = bench.book.operations.get(op.PREFILL)
    return prefill_finding(llm.model, samples, work.terms[0].flops.per.get(op.TOKENS) if work else None)
