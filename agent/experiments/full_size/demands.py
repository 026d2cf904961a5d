"""What a stage asks of the laws that small models give: the law's name, its work and its counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.experiments.workload.laws import LlmLaw
from profiling.roofline import Term
from profiling.workload import Work

WORK, LAYERS, HEAD, FORWARDS = "work", "layers", "head", "forwards"


@dataclass(frozen=True)
class Demand:
    """One operation, done `times` over: `terms` of one time by unit, and what else its law counts."""

    law: str
    terms: Mapping[str, Term] = field(default_factory=dict[str, Term])
    counts: Mapping[str, float] = field(default_factory=dict[str, float])
    times: float = 1.0

    def units(self, ceilings: Mapping[str, float]) -> dict[str, float]:
        """Seconds at these ceilings, and counts, of one time."""
        return {**{unit: term.seconds(ceilings) for unit, term in self.terms.items()}, **self.counts}

    def ceiling_s(self, ceilings: Mapping[str, float]) -> float:
        return sum(term.seconds(ceilings) for term in self.terms.values())

    @property
    def weight_bytes(self) -> float:
        return sum(term.work.bytes for term in self.terms.values())


def of_pass(chunk_ms: int, terms: Mapping[str, Term], times: float = 1.0) -> dict[str, Demand]:
    """By part. The decoder goes step by step whatever the chunk: one law for all chunk sizes."""
    of_chunk = {part: "" if part == "decoder" else f", {chunk_ms} ms" for part in terms}
    return {
        part: Demand(f"recogniser, {part}{of_chunk[part]}", {WORK: term}, times=times) for part, term in terms.items()
    }


def of_prefill(term: Term) -> Demand:
    return Demand("language model, prefill", {WORK: term})


class TokenDemands:
    """Of a GGUF file: what is read of its layers and what of its output head, a token each."""

    def __init__(self, law: LlmLaw) -> None:
        self._law = law

    def token(self, kv_bytes: float, times: float = 1.0) -> Demand:
        whole = self._law.token(kv_bytes)
        head = Work(self._law.head_bytes, 2 * self._law.head_parameters)
        layers = Work(whole.work.bytes - head.bytes, whole.work.flops - head.flops)
        terms = {LAYERS: Term(layers, whole.rate, whole.read), HEAD: Term(head, whole.rate, whole.read)}
        return Demand("language model, token", terms, times=times)


def of_setup(terms: Mapping[str, Term]) -> dict[str, Demand]:
    """By part; those without work are as long in every model."""
    parts = dict.fromkeys(("tokenise", "prompt", *terms))
    return {part: Demand(f"voice, {part}", {WORK: terms[part]} if part in terms else {}) for part in parts}


def of_patch(terms: Mapping[str, Term], forwards: int, times: float = 1.0) -> dict[str, Demand]:
    """By part; the diffusion module has a cost for each forward too."""
    counts = {"diffusion": {FORWARDS: float(forwards)}}
    return {
        part: Demand(f"voice, {part}", {WORK: term}, counts.get(part, {}), times=times) for part, term in terms.items()
    }
