"""What the agent knew when it decided how long to wait at the end of a turn, in one line."""

from collections.abc import Mapping, Sequence

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Turn

_TEXTS = {"finished": "words finished", "unfinished": "words unfinished", "unknown": "words not known"}


def endpoint_line(turn: Turn) -> str | None:
    """Each decision of the silence that ended the turn, with its cost. None for a turn that holds none."""
    told = turn.groups.get((v.ENDPOINT, None), {})
    rows = zip(
        _column(told, v.ENDPOINT_DECIDED_AT_S),
        _column(told, v.ENDPOINT_DECIDED_PROBABILITY),
        map(str, _column(told, v.ENDPOINT_DECIDED_TEXT)),
        _column(told, v.ENDPOINT_DECIDED_WAIT_S),
        _column(told, v.ENDPOINT_DECIDED_COST_S),
        strict=False,
    )
    decisions = [
        _decision(float(at), float(sure), text, float(wait), float(cost)) for at, sure, text, wait, cost in rows
    ]
    if not decisions:
        return None
    pauses = told.get(v.ENDPOINT_PAUSES)
    before = f"{pauses} {'pause' if pauses == 1 else 'pauses'} did not end the turn; " if pauses else ""
    return before + "; ".join(decisions)


def _decision(at_s: float, probability: float, text: str, wait_s: float, cost_s: float) -> str:
    cost = f", {cost_s * 1000:.0f} ms more" if cost_s >= 0.0005 else ""
    return (
        f"at {at_s * 1000:.0f} ms of silence {probability * 100:.0f} % finished, {_TEXTS.get(text, text)}: "
        f"wait for {wait_s * 1000:.0f} ms{cost}"
    )


def _column(told: Mapping[str, Attribute], key: str) -> Sequence[int | float | str]:
    column = told.get(key, ())
    return () if isinstance(column, str | int | float) else column
