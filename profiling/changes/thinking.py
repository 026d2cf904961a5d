"""More or fewer unspoken tokens before the first phrase."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from profiling.changes.change import Change, ChangeRefused, Context, Service, model
from profiling.changes.thoughts import Thought, evaluated, first_phrase, kv_growth, thoughts, tokens_of
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
        if not any(token.service.seconds.value > 0 for turn in context.turns for token in tokens_of(turn)):
            raise ChangeRefused(
                f"What {self.label} would cost cannot be said: {model(context.turns, v.LLM)} has no time per token in "
                "this run; replay with a model that tells when each token came."
            )

    def restructured(self, turn: Turn, context: Context) -> Turn:
        first = first_phrase(turn)
        if first is None or not self.tokens or thoughts(turn):
            return turn
        return insert_before(turn, first, Stage.LLM_THINKING)

    def retimed(
        self, step: Step, services: Sequence[Service], turn: Turn, before: Context, after: Context
    ) -> Sequence[Service]:
        first = first_phrase(turn)
        thought = step.stage is Stage.LLM_THINKING
        if first is None or (not thought and (services[0].name != TOKEN or step.index < first)):
            return services
        slope = before.once("seconds per KV byte", lambda: _per_kv_byte(before))
        plans = self._plans(turn)
        if thought and step.index < first:
            return _rethought(step.index, services, plans, turn, slope, before)
        added = sum(plan.added for plan in plans)
        return _deeper_by(services, added, turn, slope)

    def _plans(self, turn: Turn) -> list["_Plan"]:
        """The thoughts keep their first tokens, as many as there are to be; the last of them takes what is missing."""
        found, left = thoughts(turn), self.tokens
        plans: list[_Plan] = []
        for place, thought in enumerate(found):
            kept = min(left, thought.own)
            left -= kept
            plans.append(_Plan(thought, kept, left if place == len(found) - 1 else 0))
        return plans

    def caveats(self, before: Context, after: Context) -> Iterator[str]:
        counts = [sum(thought.own for thought in thoughts(turn)) for turn in before.turns]
        yield (
            f"Thinking: {self.tokens} tokens in every turn instead of {_range(counts)}; a model may stop "
            "thinking before its budget is used, and what it then says may be longer or shorter: that is not predicted."
        )
        if self.tokens and 0 in counts:
            yield "Tags that open and close a thought, where a turn has none yet, are not counted."
        if not any(KV_BYTES in service.units for service in before.of(TOKEN)):
            yield "How the time per token grows with depth is not known: every inserted token is taken to cost as much."
        deepest = max((s.units.get(KV_BYTES, 0.0) for s in before.of(TOKEN)), default=0.0)
        added = [kv_growth(turn) * (self.tokens - had) for turn, had in zip(before.turns, counts, strict=True)]
        reached = max(added, default=0.0)
        calibration = before.evidence.calibration
        known = max((s.units.get(KV_BYTES, 0.0) for s in calibration.of(TOKEN)), default=0.0) if calibration else 0.0
        if deepest and deepest + reached > max(deepest, known):
            yield "The last of these tokens lie deeper than any that was measured: their time is a line drawn on."


@dataclass(frozen=True)
class _Plan:
    """Of its own tokens a thought keeps the first `kept`, and gets `missing` more."""

    thought: Thought
    kept: int
    missing: int

    @property
    def is_gone(self) -> bool:
        """Its tags then are so, too."""
        return not self.kept and not self.missing

    @property
    def added(self) -> int:
        """Tokens, fewer than none where it gets shorter."""
        if self.is_gone:
            return -self.thought.length
        return self.kept + self.missing - self.thought.own


def _rethought(
    step: int, services: Sequence[Service], plans: Sequence[_Plan], turn: Turn, slope: Interval, context: Context
) -> Sequence[Service]:
    place = [plan.thought.step for plan in plans].index(step)
    plan, earlier = plans[place], sum(before.added for before in plans[:place])
    if plan.is_gone:
        return []
    thought = plan.thought
    tag = thought.opening + thought.own
    kept = _deeper_by(services[: thought.opening + plan.kept], earlier, turn, slope)
    at = sum(before.thought.length for before in plans[:place]) + earlier + len(kept)
    closing = _deeper_by(services[tag : tag + thought.closing], earlier + plan.added, turn, slope)
    return [*kept, *_inserted(turn, at, plan.missing, slope, context), *closing]


def _deeper_by(services: Sequence[Service], tokens: int, turn: Turn, slope: Interval) -> Sequence[Service]:
    if not tokens:
        return services
    return [_deeper(service, tokens * kv_growth(turn), slope) for service in services]


def _inserted(turn: Turn, place: int, count: int, slope: Interval, context: Context) -> list[Service]:
    tokens = evaluated(turn) or [token for other in context.turns for token in evaluated(other)]
    if not count or not tokens:
        return []
    seconds = [token.service.seconds.value for token in tokens]
    mean = _mean(seconds, context.once("spread of tokens", lambda: _error(context)))
    deep = [token for token in tokens if token.kv_bytes]
    growth, middle = kv_growth(turn), statistics.fmean(token.kv_bytes for token in deep) if deep else 0.0
    pattern = Service(Stage.LLM_THINKING, TOKEN, mean)
    found: list[Service] = []
    if deep:
        place = place or deep[0].place  # one that was only chosen still is so, and all of these are evaluated after it
    for number in range(place, place + count):
        depth = deep[0].kv_bytes + growth * (number - deep[0].place) if deep else 0.0
        units = {KV_BYTES: depth} if deep else {}
        found.append(replace(_deeper(pattern, depth - middle, slope), units=units))
    return found


def _mean(values: Sequence[float], error: float) -> Interval:
    mean = statistics.fmean(values)
    return Interval(value=mean, low=mean * max(0.0, 1 - error), high=mean * (1 + error), n=len(values))


def _error(context: Context) -> float:
    """Of the run's mean time per token, as a share of it, by the bounds of a normal distribution's mean: how a turn
    differs from the others is no error of the change."""
    values = [token.service.seconds.value for turn in context.turns for token in evaluated(turn)]
    if len(values) < 2:
        return 0.0
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


def _per_kv_byte(context: Context) -> Interval:
    """Seconds per byte, by the calibration where it has several depths, else by the run's own tokens."""
    law = context.law(TOKEN)
    if law is None or KV_BYTES not in law.coefficients:
        tokens = [
            token.service for turn in context.turns for token in evaluated(turn) if KV_BYTES in token.service.units
        ]
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
