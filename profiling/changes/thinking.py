"""More or fewer unspoken tokens before the first phrase."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from profiling.changes.change import Change, ChangeRefused, Context, Service, model, services_of
from profiling.fit import fit
from profiling.interval import Interval
from profiling.operations import KV_BYTES, TOKEN
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage
from profiling.turn_graph import insert_before

_FITTED = 300  # so many tokens say how the time grows with depth


@dataclass(frozen=True)
class ThinkingTokens(Change):
    """Exactly so many unspoken tokens, each at the turn's own time per token, deeper ones dearer as measured; what is
    said after them lies deeper by as much."""

    tokens: int

    @property
    def label(self) -> str:
        return f"{self.tokens} thinking tokens" if self.tokens != 1 else "1 thinking token"

    def check(self, context: Context) -> None:
        if not any(token.seconds.value > 0 for turn in context.turns for token in _tokens_of(turn)):
            raise ChangeRefused(
                f"What {self.label} would cost cannot be said: {model(context.turns, v.LLM)} has no time per token in "
                "this run; replay with a model that tells when each token came."
            )

    def restructured(self, turn: Turn, context: Context) -> Turn:
        first = _first_phrase(turn)
        if first is None or not self.tokens or any(s.stage is Stage.LLM_THINKING for s in turn.steps[:first]):
            return turn
        return insert_before(turn, first, Stage.LLM_THINKING)

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        first = _first_phrase(turn)
        thought = step.stage is Stage.LLM_THINKING
        if first is None or (not thought and (services[0].name != TOKEN or step.index < first)):
            return services
        was = [s for other in turn.steps[:first] if other.stage is Stage.LLM_THINKING for s in _passes(other)]
        more = self.tokens - len(was)
        growth, slope = _kv_growth(turn), before.once("seconds per KV byte", lambda: _per_kv_byte(before))
        if thought and step.index < first:
            return self._thought(step, services, turn, slope, before)
        if not more:
            return services
        return [_deeper(service, more * growth, slope) for service in services]

    def _thought(
        self, step: Step, services: Sequence[Service], turn: Turn, slope: Interval, context: Context
    ) -> Sequence[Service]:
        """The first of several thoughts takes all that is missing; those after it keep what is left for them."""
        kept = [service for service in services if service.name == TOKEN and _passes(step)]
        earlier = sum(len(_passes(s)) for s in turn.steps[: step.index] if s.stage is Stage.LLM_THINKING)
        later = any(
            s.stage is Stage.LLM_THINKING and len(_passes(s)) for s in turn.steps[step.index + 1 : _first_phrase(turn)]
        )
        kept = kept[: max(0, self.tokens - earlier)]
        missing = 0 if later else max(0, self.tokens - earlier - len(kept))
        return [*kept, *_inserted(turn, earlier + len(kept), missing, slope, context)]

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        counts = [sum(len(_passes(s)) for s in turn.steps if s.stage is Stage.LLM_THINKING) for turn in before.turns]
        yield (
            f"Thinking: {self.tokens} tokens in every turn instead of {_range(counts)}; a model may stop "
            "thinking before its budget is used, and what it then says may be longer or shorter: that is not predicted."
        )
        if not any(KV_BYTES in service.units for service in before.of(TOKEN)):
            yield "How the time per token grows with depth is not known: every inserted token is taken to cost as much."
        deepest = max((s.units.get(KV_BYTES, 0.0) for s in before.of(TOKEN)), default=0.0)
        added = [_kv_growth(turn) * (self.tokens - had) for turn, had in zip(before.turns, counts, strict=True)]
        reached = max(added, default=0.0)
        calibration = before.evidence.calibration
        known = max((s.units.get(KV_BYTES, 0.0) for s in calibration.of(TOKEN)), default=0.0) if calibration else 0.0
        if deepest and deepest + reached > max(deepest, known):
            yield "The last of these tokens lie deeper than any that was measured: their time is a line drawn on."


def _first_phrase(turn: Turn) -> int | None:
    return next((step.index for step in turn.steps if step.stage is Stage.LLM_FIRST_PHRASE), None)


def _passes(step: Step) -> list[Service]:
    """The tokens of a step; none where it does not tell when each of them came."""
    return services_of(step) if v.START_TIMES_NS in step.attributes else []


def _tokens_of(turn: Turn) -> list[Service]:
    """Those before the first phrase was cut: nothing else of the turn runs beside them."""
    stages = (Stage.LLM_THINKING, Stage.LLM_FIRST_PHRASE)
    return [service for step in turn.steps if step.stage in stages for service in _passes(step)]


def _evaluated(turn: Turn) -> list[Service]:
    """Without those that were chosen after the evaluation of a token before them, where the turn tells which."""
    tokens = _tokens_of(turn)
    return [token for token in tokens if token.units.get(KV_BYTES)] or tokens


def _inserted(turn: Turn, place: int, count: int, slope: Interval, context: Context) -> list[Service]:
    tokens = _evaluated(turn) or [token for other in context.turns for token in _evaluated(other)]
    if not count or not tokens:
        return []
    mean = _mean([token.seconds.value for token in tokens], context.once("spread of tokens", lambda: _error(context)))
    depths = [depth for token in tokens if (depth := token.units.get(KV_BYTES))]
    growth = _kv_growth(turn)
    middle = statistics.fmean(depths) if depths else 0.0
    pattern = Service(Stage.LLM_THINKING, TOKEN, mean)
    found: list[Service] = []
    for number in range(place, place + count):
        depth = min(depths, default=0.0) + growth * number
        units = {KV_BYTES: depth} if depths else {}
        found.append(replace(_deeper(pattern, depth - middle, slope), units=units))
    return found


def _mean(values: Sequence[float], error: float) -> Interval:
    mean = statistics.fmean(values)
    return Interval(value=mean, low=mean * max(0.0, 1 - error), high=mean * (1 + error), n=len(values))


def _error(context: Context) -> float:
    """Of the run's mean time per token, as a share of it, by the bounds of a normal distribution's mean: how a turn
    differs from the others is no error of the change."""
    values = [token.seconds.value for turn in context.turns for token in _evaluated(turn)]
    if len(values) < 2:
        return 0.0
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


def _kv_growth(turn: Turn) -> float:
    """Bytes of KV cache that a token adds to what those after it read; 0 where that is not known."""
    told = [(place, depth) for place, token in enumerate(_tokens_of(turn)) if (depth := token.units.get(KV_BYTES))]
    if len(told) < 2:
        return 0.0
    (first, shallow), (last, deep) = told[0], told[-1]
    return max(0.0, (deep - shallow) / (last - first))


def _per_kv_byte(context: Context) -> Interval:
    """Seconds per byte, by the calibration where it has several depths, else by the run's own tokens."""
    law = context.law(TOKEN)
    if law is None or KV_BYTES not in law.coefficients:
        tokens = [s for turn in context.turns for s in _evaluated(turn) if KV_BYTES in s.units]
        chosen = tokens[:: max(1, len(tokens) // _FITTED)]
        law = fit([s.units for s in chosen], [s.seconds.value for s in chosen]) if chosen else None
    if law is None or KV_BYTES not in law.coefficients:
        return Interval.exactly(0.0)
    found = law.coefficients[KV_BYTES]
    return Interval(value=max(0.0, found.value), low=max(0.0, found.low), high=max(0.0, found.high), n=found.n)


def _deeper(service: Service, kv_bytes: float, slope: Interval) -> Service:
    """The same token, so many bytes of KV cache deeper; one that was only chosen reads none of it."""
    if service.units.get(KV_BYTES) == 0:
        return service
    dearer, seconds = slope.scaled(kv_bytes), service.seconds
    known = {KV_BYTES: service.units[KV_BYTES] + kv_bytes} if KV_BYTES in service.units else {}
    changed = Interval(
        value=max(0.0, seconds.value + dearer.value),
        low=max(0.0, seconds.low + dearer.low),
        high=max(0.0, seconds.high + dearer.high),
        n=seconds.n,
    )
    return replace(service, seconds=changed, units={**service.units, **known})


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return str(low) if low == high else f"{low} to {high}"
