"""Two runs beside each other: whether they are two, what differs, and whether their decoding can be compared."""

from collections.abc import Mapping
from typing import Any, cast

from profiling.figures import Figures
from profiling.operations import TOKEN
from profiling.run import Run, RunInfo
from profiling.work_book import WorkBook

_SAME_MODEL = 0.02  # a format may keep a few tensors twice, or pad them
_ENGINES = {"asr": "recogniser", "llm": "language model", "tts": "voice"}  # by their sections of the settings
_UNKNOWN = "unknown"


def are_one(run: Run, before: Run) -> bool:
    """Whether both are the same run, be it from the same folder or from a copy."""
    if run.info and before.info:
        return (run.info.start, run.info.name) == (before.info.start, before.info.name)
    return bool(run.turns) and run.turns == before.turns


def differences(run: Run, before: Run, book: WorkBook, book_before: WorkBook) -> list[str]:
    """What the settings, the machine and the work of the two say is not the same, as in "voice A (before: B)"."""
    facts, facts_before = _facts(run.info, book), _facts(before.info, book_before)
    return [
        f"{name} {fact} (before: {facts_before[name]})" for name, fact in facts.items() if fact != facts_before[name]
    ]


def obstacle(book: WorkBook, book_before: WorkBook) -> str | None:
    """Why the decoding of the two cannot be compared, as a sentence: they are of different language models, or the
    work of a token is not known. The same model in another format has as many parameters."""
    if TOKEN not in book.operations or book.llm is None:
        return "How much work a token was is not known of the run."
    if TOKEN not in book_before.operations or book_before.llm is None:
        return "How much work a token was is not known of the run before."
    now, then = book.llm.parameters, book_before.llm.parameters
    if abs(now - then) <= _SAME_MODEL * then:
        return None
    return f"The language models are different ones: {_billions(now)} parameters, before {_billions(then)}."


def beside(run: Figures, before: Figures) -> str:
    """What the language model reached, as multiples of what it reached before, in a sentence."""
    found = {
        "the speed": _ratio(before.decode_alone_s, run.decode_alone_s),
        "the bytes of a token": _ratio(run.bytes_per_token, before.bytes_per_token),
        "the bandwidth": _ratio(run.bytes_per_s, before.bytes_per_s),
        "the arithmetic": _ratio(run.flops_per_s, before.flops_per_s),
    }
    told = [f"{ratio:.2f} times {name}" for name, ratio in found.items() if ratio is not None]
    return (
        f"Decoding beside the run before: {', '.join(told)}." if told else "Nothing of decoding is known of both runs."
    )


def _facts(info: RunInfo | None, book: WorkBook) -> dict[str, str]:
    machine = info.machine if info else None
    return {
        **{name: _model(info, section) for section, name in _ENGINES.items()},
        "weights": _formats(book),
        "machine": f"{machine.cpu} with {machine.usable_cores} cores" if machine else _UNKNOWN,
        "device of the language model": book.devices.get("llm", _UNKNOWN),
        "threads of the language model": str(book.threads.get("llm", _UNKNOWN)),
    }


def _model(info: RunInfo | None, section: str) -> str:
    settings: Any = info.settings.get(section) if info else None
    if not isinstance(settings, Mapping):
        return _UNKNOWN
    return str(cast(Mapping[str, Any], settings).get("model", _UNKNOWN))


def _formats(book: WorkBook) -> str:
    """The two that most weights of the language model have."""
    if book.llm is None or not book.llm.elements:
        return _UNKNOWN
    return " and ".join(sorted(book.llm.elements, key=book.llm.elements.__getitem__, reverse=True)[:2])


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value and other else None


def _billions(parameters: float) -> str:
    return f"{parameters / 1e9:.3g} billion"
