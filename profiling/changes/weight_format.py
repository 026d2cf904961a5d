"""The language model in another weight format: fewer bytes or more, and another speed of arithmetic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from profiling.changes.change import ChangeRefused, Context, model
from profiling.changes.roofline import RooflineChange, floor
from profiling.evidence import Evidence
from profiling.formats import BLOCKS, UnknownFormat, bits_per_weight, canonical
from profiling.interval import Interval
from profiling.operations import PREFILL, TOKEN
from profiling.trace import vocabulary as v
from profiling.work_book import Linear, ModelFigures, OperationWork, TermLaw, WorkBook

_UNMEASURED = ", as if in another format"  # of a ceiling's name


@dataclass(frozen=True)
class WeightFormat(RooflineChange):
    """The language model's matrices in another format; its vectors stay. How near a kernel comes to its floor may stay,
    or what it takes above that: the bounds hold both."""

    may_go_along: ClassVar[bool] = True

    name: str

    @property
    def label(self) -> str:
        return f"weights in {self.name}"

    def check(self, context: Context) -> None:
        try:
            bits_per_weight(self.name)
        except UnknownFormat as error:
            raise ChangeRefused(str(error)) from None
        llm, name = context.evidence.work_book.llm, model(context.turns, v.LLM)
        if llm is None or not llm.elements or not all(map(_is_known, llm.elements)) or not context.of(TOKEN):
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: the work of {name} is not known, as a server's is not; "
                "replay with a model file."
            )
        if all(floor(token, context.evidence) is None for token in context.of(TOKEN)):
            raise ChangeRefused(
                f"What {self.label} would do cannot be said: how fast this machine reads and computes at most, or what "
                f"each token of {name} has to read, is not known; let `turnscope machine` measure and replay."
            )

    def evidence_after(self, evidence: Evidence) -> Evidence:
        book = evidence.work_book
        if book.llm is None:
            return evidence
        factor = self._bytes_factor(book.llm)
        operations = {
            name: self._rewritten(name, work, factor, evidence) if name in (TOKEN, PREFILL) else work
            for name, work in book.operations.items()
        }
        changed = {name: count for name, count in book.llm.elements.items() if name not in _matrices(book.llm)}
        moved = sum(count for name, count in book.llm.elements.items() if name in _matrices(book.llm))
        base = self._base
        llm = book.llm.model_copy(
            update={
                "weight_bytes": book.llm.weight_bytes * factor,
                "elements": changed | {base: moved + changed.get(base, 0)},
            }
        )
        return replace(
            evidence,
            work_book=WorkBook(operations=operations, llm=llm, threads=book.threads, devices=book.devices),
            ceilings={**self._unmeasured(operations, factor, evidence), **evidence.ceilings},
        )

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        llm = before.evidence.work_book.llm
        if llm is not None:
            share = self._bytes_factor(llm)
            name = model(before.turns, v.LLM)
            yield f"In {self.name} the weights of {name} take {share:.2f} of the bytes that they take now."
        token = after.evidence.work_book.operations[TOKEN]
        if not all(canonical_rate(term.rate) in (None, self._base) for term in token.terms):
            yield (
                f"The speed of arithmetic in {self.name} is not measured here: that of the present format is used. For "
                "a token it may as well go along with the bytes: the interval holds both."
            )
        yield from super().caveats(before, after)

    @property
    def _base(self) -> str:
        """The format of most matrices."""
        known = canonical(self.name)
        return known if known in BLOCKS else known.removesuffix("_M")

    def _bytes_factor(self, llm: ModelFigures) -> float:
        bits = {name: bits_per_weight(name) for name in llm.elements}
        moved = _matrices(llm)
        old = sum(bits[name] * count for name, count in llm.elements.items())
        new = sum((bits_per_weight(self.name) if n in moved else bits[n]) * count for n, count in llm.elements.items())
        return new / old

    def _rewritten(self, operation: str, work: OperationWork, factor: float, evidence: Evidence) -> OperationWork:
        """What does not grow with the KV cache or the prompt is weights."""
        terms = tuple(self._term(operation, term, factor, evidence) for term in work.terms)
        return work.model_copy(update={"terms": terms})

    def _term(self, operation: str, term: TermLaw, factor: float, evidence: Evidence) -> TermLaw:
        _, comma, place = term.rate.partition(", ")
        rate, read = f"{self._base}{comma}{place}", Linear(constant=term.bytes.constant * factor, per=term.bytes.per)
        if canonical_rate(term.rate) is None:
            rate = term.rate
        elif rate not in evidence.ceilings:
            rate = f"{term.rate}{_UNMEASURED}" if operation == TOKEN and term.rate in evidence.ceilings else term.rate
        return term.model_copy(update={"bytes": read, "rate": rate})

    def _unmeasured(
        self, operations: Mapping[str, OperationWork], factor: float, evidence: Evidence
    ) -> Mapping[str, Interval]:
        """Of one row, arithmetic is mostly the unpacking of the weights: its speed may stay that of the present format,
        or go along with the bytes."""
        rates = {term.rate for work in operations.values() for term in work.terms if term.rate.endswith(_UNMEASURED)}
        return {rate: _stretched(evidence.ceilings[rate.removesuffix(_UNMEASURED)], 1 / factor) for rate in rates}


def _stretched(ceiling: Interval, factor: float) -> Interval:
    low, high = ceiling.low * min(1.0, factor), ceiling.high * max(1.0, factor)
    return Interval(value=ceiling.value, low=low, high=high, n=ceiling.n)


def canonical_rate(rate: str) -> str | None:
    """The weight format that a ceiling is named for, if it is."""
    try:
        return canonical(rate.partition(", ")[0])
    except UnknownFormat:
        return None


def _is_known(weight_format: str) -> bool:
    return canonical_rate(weight_format) is not None


def _matrices(llm: ModelFigures) -> set[str]:
    """The formats of the matrices: vectors are kept in F32 beside them."""
    others = {name for name in llm.elements if canonical(name) != "F32"}
    return others or set(llm.elements)
