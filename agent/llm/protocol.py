"""What the conversation asks of a language model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from profiling.trace.timeline import Attribute

ShouldStop = Callable[[], bool]


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Prefill:
    """The prompt is in the KV cache: `cached_tokens` were there already, `evaluated_tokens` were computed now. The
    engine took the messages up at `taken_ns`; until `start_ns` it rendered and tokenised them. A count is None while
    the engine does not know it; it may then come with Finished."""

    taken_ns: int
    start_ns: int
    end_ns: int
    prompt_tokens: int | None
    cached_tokens: int | None
    evaluated_tokens: int | None


@dataclass(frozen=True)
class Token:
    """One generated token. `text` may be empty while a multi-byte character is incomplete. Unspoken tokens are
    thinking, injected tags included.

    `weight_bytes` and `kv_bytes` are what its evaluation had to read of the weights and of the KV cache: 0 for a
    token that needed none of its own (the first, one of a batch), None where the engine does not know. `injected` marks
    those of a tag that the engine put in by itself.
    """

    text: str
    unspoken: bool
    start_ns: int
    end_ns: int
    weight_bytes: int | None = None
    kv_bytes: int | None = None
    injected: bool = False


@dataclass(frozen=True)
class Finished:
    """Why generation ended: the model's own stop, the token limit, or `should_stop`. `attributes` are what only the
    whole generation tells (tokens drafted and accepted, a server's own timings), by span attribute."""

    reason: Literal["stop", "length", "cancelled"]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


class LlmEngine(Protocol):
    """A loaded language model with one KV cache. One generation at a time. `attributes` describe it on its spans."""

    model: str
    attributes: Mapping[str, Attribute]
    context_tokens: int

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        """How many tokens of the context the messages take as a prompt. May be called on the event loop."""
        ...

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        """Yield one Prefill, then Tokens, then Finished.

        `thinking_tokens` is the budget of unspoken tokens (0: thinking off); `max_tokens` bounds the visible ones.
        When `should_stop` turns true, generation ends within one token, or within the prefill batch in flight, and
        yields Finished("cancelled"). The KV cache stays valid for the next call. Raises TurnscopeError when the
        messages do not fit the context.
        """
        ...

    def prefill(self, messages: Sequence[Message], *, should_stop: ShouldStop) -> Prefill | None:
        """Put into the KV cache what is certain of a conversation that goes on; None where that was stopped, or is not
        for this engine to do."""
        ...

    def warm_up(self, messages: Sequence[Message]) -> None:
        """Put the given start of every conversation into the KV cache and run the decode path once."""
        ...
