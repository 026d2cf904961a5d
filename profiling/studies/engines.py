"""One model file in-process and behind a server: what HTTP and the server's own code add."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from profiling.interval import Interval
from profiling.studies.finding import Finding, Plot, Series

LOCAL, SERVED = "in-process", "over HTTP"
_ENGINES = (LOCAL, SERVED)


@dataclass(frozen=True)
class Request:
    """One prompt, answered once. `pair` is shared by the two requests with the same prompt; `tokens_s` are those after
    the first, each from the one before it."""

    engine: str
    pair: int
    prompt_tokens: int
    prefill_s: float
    first_token_s: float
    tokens_s: tuple[float, ...]

    @property
    def token_s(self) -> float:
        """The median: a server may send several tokens at once now and then."""
        return median(self.tokens_s)


@dataclass(frozen=True)
class _Row:
    """Requests of one length, or the differences of pairs."""

    name: str
    first_s: Interval
    prefill_s: Interval
    token_s: Interval

    @classmethod
    def of(cls, name: str, figures: Sequence[tuple[float, float, float]]) -> "_Row":
        """Of (first token, prefill, token) each."""
        return cls(name, *(Interval.of_median(values) for values in zip(*figures, strict=True)))

    def cells(self, sign: str) -> tuple[str, ...]:
        first, prefill, token = (f"{one.value * 1e3:{sign}.2f}" for one in (self.first_s, self.prefill_s, self.token_s))
        return self.name, first, prefill, token, str(self.first_s.n)


def engines_finding(model: str, requests: Sequence[Request], notes: Sequence[str] = ()) -> Finding:
    """From pairs of requests with the same prompt, one to each engine, of several lengths.

    Differences are those within pairs, which a machine that drifts does not tilt. Raises ValueError without a pair.
    """
    pairs = _pairs(requests)
    if not pairs:
        raise ValueError("no prompt was answered by both engines")
    lengths = sorted({local.prompt_tokens for local, _ in pairs})
    rows: list[tuple[str, ...]] = []
    firsts: dict[str, list[Interval]] = {engine: [] for engine in _ENGINES}
    for length in lengths:
        there = [pair for pair in pairs if pair[0].prompt_tokens == length]
        for at, engine in enumerate(_ENGINES):
            row = _Row.of(f"{length} tokens, {engine}", [_figures(pair[at]) for pair in there])
            firsts[engine].append(row.first_s)
            rows.append(row.cells(""))
        rows.append(_Row.of(f"{length} tokens, difference", [_difference(*pair) for pair in there]).cells("+"))
    every = _Row.of("all, difference", [_difference(*pair) for pair in pairs])
    return Finding(
        title=f"{model} in-process and over HTTP",
        columns=("prompt", "first token, ms", "prefill, ms", "per token, ms", "n"),
        rows=(*rows, every.cells("+")),
        plot=Plot(
            title=f"{model}: time to the first token",
            x_label="prompt, tokens",
            y_label="time to the first token, ms",
            series=tuple(
                Series(
                    engine,
                    [str(length) for length in lengths],
                    [one.value * 1e3 for one in firsts[engine]],
                    [one.low * 1e3 for one in firsts[engine]],
                    [one.high * 1e3 for one in firsts[engine]],
                    style="bars",
                )
                for engine in _ENGINES
            ),
        ),
        sentence=_sentence(every, median(local.token_s for local, _ in pairs)),
        notes=tuple(notes),
        data={"requests": [asdict(request) for request in requests]},
    )


def _pairs(requests: Sequence[Request]) -> list[tuple[Request, Request]]:
    """(in-process, over HTTP); a prompt that only one has answered is left out."""
    by_engine = {engine: {one.pair: one for one in requests if one.engine == engine} for engine in _ENGINES}
    local, served = by_engine[LOCAL], by_engine[SERVED]
    return [(local[pair], served[pair]) for pair in local if pair in served]


def _figures(request: Request) -> tuple[float, float, float]:
    return request.first_token_s, request.prefill_s, request.token_s


def _difference(local: Request, served: Request) -> tuple[float, float, float]:
    first, prefill, token = (there - here for here, there in zip(_figures(local), _figures(served), strict=True))
    return first, prefill, token


def _sentence(every: _Row, token_s: float) -> str:
    request, token = _later(every.first_s), _later(every.token_s)
    share = 100 * every.token_s.value / token_s
    certain = every.token_s.low > 0 or every.token_s.high < 0
    more = f", {share:+.0f} % of an in-process one" if certain else ""
    return f"Through the server the first token of a reply comes {request}, and each further one {token}{more}."


def _later(added_s: Interval) -> str:
    bounds = f"{added_s.low * 1e3:+.2f} to {added_s.high * 1e3:+.2f} ms"
    if added_s.low <= 0 <= added_s.high:
        return f"not measurably later ({bounds})"
    return f"{abs(added_s.value) * 1e3:.2f} ms {'later' if added_s.value > 0 else 'earlier'} ({bounds})"
