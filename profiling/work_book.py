"""How much work each operation of a run's engines is, as formulas over what the operation counts: kept in the run
folder, so that a run can be explained without its models."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from profiling.roofline import READ, Term
from profiling.workload import Work


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Linear(_Frozen):
    """`constant` plus so much for each of the named units (tokens, patches, seconds encoded, bytes of KV cache); never
    below 0, where a line through larger sizes would go."""

    constant: float = 0
    per: Mapping[str, float] = {}

    def at(self, units: Mapping[str, float]) -> float:
        total = self.constant
        for name, each in self.per.items():
            total += each * units.get(name, 0)
        return max(0.0, total)


class TermLaw(_Frozen):
    """One `part` of an operation, bound by one ceiling or the other: `rate` and `read` name them."""

    part: str
    rate: str
    read: str = READ
    flops: Linear = Linear()
    bytes: Linear = Linear()

    def at(self, units: Mapping[str, float], times: float = 1) -> Term:
        """So many times the work."""
        return Term(Work(times * self.bytes.at(units), times * self.flops.at(units)), self.rate, self.read)


class OperationWork(_Frozen):
    """`terms` follow each other; `steps` counts the serial steps that they are done in (tokens, patches, forwards)."""

    terms: tuple[TermLaw, ...] = ()
    steps: Linear = Linear(constant=1)

    def at(self, units: Mapping[str, float]) -> dict[str, Term]:
        return {term.part: term.at(units) for term in self.terms}


class ModelFigures(_Frozen):
    """What a prediction for another format or another machine needs of a language model.

    `parameters` are those that one token uses, embeddings not counted and the output head included; `weight_bytes` of
    them are read for one token, `elements` counts them by weight format."""

    parameters: float
    weight_bytes: float
    elements: Mapping[str, float] = {}


class WorkBook(_Frozen):
    """By operation (`profiling.operations`); an operation whose work is not known has no entry. `ceilings` are all
    names that the terms use."""

    operations: Mapping[str, OperationWork] = {}
    llm: ModelFigures | None = None
    threads: Mapping[str, int] = {}  # by engine: asr, llm, prefill, tts
    devices: Mapping[str, str] = {}  # by engine: cpu, cuda:0

    @property
    def places(self) -> set[tuple[str, int]]:
        """Devices with the numbers of threads that engines use there."""
        return {(self.devices[engine], count) for engine, count in self.threads.items() if engine in self.devices}

    @property
    def ceilings(self) -> set[str]:
        terms = [term for operation in self.operations.values() for term in operation.terms]
        return {name for term in terms for name in (term.rate, term.read)}
