"""What a turn thinks before its first phrase, token by token."""

from dataclasses import dataclass

from profiling.changes.change import Service, services_of
from profiling.operations import KV_BYTES, numbers
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage


@dataclass(frozen=True)
class Thought:
    """One before the first phrase, in tokens: the tags that were put in around it, and its own between them."""

    step: int
    opening: int
    own: int
    closing: int

    @property
    def length(self) -> int:
        return self.opening + self.own + self.closing


def first_phrase(turn: Turn) -> int | None:
    return next((step.index for step in turn.steps if step.stage is Stage.LLM_FIRST_PHRASE), None)


def thoughts(turn: Turn) -> list[Thought]:
    before = [step for step in turn.steps[: first_phrase(turn)] if step.stage is Stage.LLM_THINKING]
    return [_thought(step) for step in before]


def _thought(step: Step) -> Thought:
    opening, closing = (_count(step, name) for name in (v.LLM_OPENING_TAG_TOKENS, v.LLM_CLOSING_TAG_TOKENS))
    own = len(_passes(step)) - opening - closing
    return Thought(step.index, opening, own, closing) if own >= 0 else Thought(step.index, 0, len(_passes(step)), 0)


def _count(step: Step, name: str) -> int:
    return round(sum(numbers(step.attributes.get(name))))


def _passes(step: Step) -> list[Service]:
    """The tokens of a step; none where it does not tell when each of them came."""
    return services_of(step) if v.START_TIMES_NS in step.attributes else []


@dataclass(frozen=True)
class Token:
    """`place` counts the tokens before it, tags among them."""

    place: int
    service: Service

    @property
    def kv_bytes(self) -> float:
        """0 where it was only chosen, after the evaluation of a token before it, and where nothing is told."""
        return self.service.units.get(KV_BYTES, 0.0)


def tokens_of(turn: Turn) -> list[Token]:
    """Those before the first phrase was cut, beside which nothing else of the turn runs; without injected tags, which
    are evaluated in a batch."""
    found: list[Token] = []
    place, tags = 0, {thought.step: thought for thought in thoughts(turn)}
    for step in turn.steps:
        if step.stage in (Stage.LLM_THINKING, Stage.LLM_FIRST_PHRASE):
            passes, thought = _passes(step), tags.get(step.index)
            own = slice(None) if thought is None else slice(thought.opening, thought.opening + thought.own)
            found += [Token(place + at, passes[at]) for at in range(len(passes))[own]]
            place += len(passes)
    return found


def evaluated(turn: Turn) -> list[Token]:
    """Without those that were only chosen, where the turn tells which."""
    tokens = tokens_of(turn)
    return [token for token in tokens if token.kv_bytes] or tokens


def kv_growth(turn: Turn) -> float:
    """Bytes of KV cache that a token adds to what those after it read; 0 where that is not known."""
    told = [token for token in tokens_of(turn) if token.kv_bytes]
    if len(told) < 2:
        return 0.0
    return max(0.0, (told[-1].kv_bytes - told[0].kv_bytes) / (told[-1].place - told[0].place))
