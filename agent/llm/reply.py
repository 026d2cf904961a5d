"""The reply as it grows: what is thought and what is said, what has to be evaluated next, and when it ends."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from agent.llm.protocol import Token
from agent.llm.thinking import THINK, Speech, ThoughtTags


class Work(NamedTuple):
    """When a token was made, and what that read of the weights and of the KV cache."""

    start_ns: int
    end_ns: int
    weight_bytes: int | None
    kv_bytes: int | None


class Reply:
    """The state of one generation, without the model.

    With a thinking budget the reply begins with an injected opening tag, unless the model opens its thoughts by itself
    (`tags.native`) or the prompt has opened one (`begins_in_thought`). Every thought, asked for or not, is closed by an
    injected closing tag once `thinking_tokens` tokens were thought, or when the model would end there. At most
    `max_tokens` tokens are spoken, and `thinking_tokens + max_tokens` sampled.
    """

    def __init__(
        self,
        thinking_tokens: int,
        max_tokens: int,
        *,
        opening_tag: Sequence[int],
        closing_tag: Sequence[int],
        tags: ThoughtTags = THINK,
        begins_in_thought: bool = False,
    ) -> None:
        self._thinking_tokens = thinking_tokens
        self._max_tokens = max_tokens
        self._closing_tag = list(closing_tag)
        self._speech = Speech(tags)
        self._thought = self._spoken = self._sampled = 0
        self.unevaluated: list[int] = []  # the token chosen last, until it is evaluated
        self.tag: list[int] = []  # to be injected next
        self.ended: Literal["stop", "length", "cancelled"] | None = None
        if begins_in_thought:
            self._speech.open_thought()
            self._close_when_spent()
        elif thinking_tokens > 0 and not tags.native:
            self.tag = list(opening_tag)

    @property
    def thinking(self) -> bool:
        return self._speech.thinking

    @property
    def has_begun(self) -> bool:
        """Whether something was said; until then the model must not end."""
        return self._spoken > 0

    @property
    def room(self) -> int:
        """How many tokens can be sampled before a limit strikes."""
        if self.thinking:
            return self._thinking_tokens - self._thought
        return min(self._max_tokens - self._spoken, self._thinking_tokens + self._max_tokens - self._sampled)

    def is_long_enough(self) -> bool:
        return self._spoken >= self._max_tokens or self._sampled >= self._thinking_tokens + self._max_tokens

    def injected(self, work: Work) -> list[Token]:
        """The due tag is evaluated, in one batch, whose time its tokens share; the first has what the batch read."""
        if self.thinking:
            self._speech.close_thought()
        else:
            self._speech.open_thought()
        count = len(self.tag)
        edges = [work.start_ns + (work.end_ns - work.start_ns) * at // count for at in range(count + 1)]
        self.unevaluated, self.tag = [], []
        self._close_when_spent()
        reads = [(work.weight_bytes, work.kv_bytes), *[(0, 0)] * (count - 1)]
        return [
            Token("", True, *interval, *read, injected=True)
            for interval, read in zip(pairwise(edges), reads, strict=True)
        ]

    def sampled(self, token: int, piece: bytes, work: Work) -> Token:
        """The model chose a token that stands for these bytes."""
        self._count()
        self.unevaluated = [token]
        text, unspoken = self._speech.feed(piece)
        self._spoken += not unspoken
        self._close_when_spent()
        if not unspoken and self.is_long_enough():
            text += self._speech.finish()
        return Token(text, unspoken, *work)

    def sampled_end(self, work: Work) -> Token:
        """The model chose to end. Its token is not evaluated: after a thought, the answer is still to come."""
        self._count()
        self.unevaluated = []
        if self.thinking:
            self.tag = self._closing_tag
            return Token("", True, *work)
        self.ended = "stop"
        return Token(self._speech.finish(), False, *work)

    def _count(self) -> None:
        self._sampled += 1
        self._thought += self.thinking

    def _close_when_spent(self) -> None:
        if self.thinking and self._thought >= self._thinking_tokens:
            self.tag = self._closing_tag
