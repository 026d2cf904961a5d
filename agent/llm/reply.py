"""The reply as it grows: what is thought and what is said, what has to be evaluated next, and when it ends."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from agent.llm.protocol import Token
from agent.llm.thinking import THINK, Speech


class Reply:
    """The state of one generation, without the model.

    With a thinking budget the reply begins with an injected opening tag; a thought is closed by an injected closing
    tag once `thinking_tokens` tokens were thought, or when the model would end there. A thought that the model opens
    by itself is held to the same budget. At most `max_tokens` tokens are spoken, and `thinking_tokens + max_tokens`
    sampled.
    """

    def __init__(
        self, thinking_tokens: int, max_tokens: int, *, opening_tag: Sequence[int], closing_tag: Sequence[int]
    ) -> None:
        self._thinking_tokens = thinking_tokens
        self._max_tokens = max_tokens
        self._closing_tag = list(closing_tag)
        self._speech = Speech(THINK)
        self._thought = self._spoken = self._sampled = 0
        self.unevaluated: list[int] = []  # the token chosen last, until it is evaluated
        self.tag: list[int] = list(opening_tag) if thinking_tokens > 0 else []  # to be injected next
        self.ended: Literal["stop", "length", "cancelled"] | None = None

    @property
    def thinking(self) -> bool:
        return self._speech.thinking

    @property
    def has_begun(self) -> bool:
        """Whether something was said; until then the model must not end."""
        return self._spoken > 0

    def is_long_enough(self) -> bool:
        return self._spoken >= self._max_tokens or self._sampled >= self._thinking_tokens + self._max_tokens

    def injected(self, start_ns: int, end_ns: int) -> list[Token]:
        """The due tag is evaluated, in one batch."""
        if self.thinking:
            self._speech.close_thought()
        else:
            self._speech.open_thought()
        count = len(self.tag)
        edges = [start_ns + (end_ns - start_ns) * at // count for at in range(count + 1)]
        self.unevaluated, self.tag = [], []
        self._close_when_spent()
        return [Token("", True, start, end) for start, end in pairwise(edges)]

    def sampled(self, token: int, piece: bytes, start_ns: int, end_ns: int) -> Token:
        """The model chose a token that stands for these bytes."""
        self._count()
        self.unevaluated = [token]
        text, unspoken = self._speech.feed(piece)
        self._spoken += not unspoken
        self._close_when_spent()
        if not unspoken and self.is_long_enough():
            text += self._speech.finish()
        return Token(text, unspoken, start_ns, end_ns)

    def sampled_end(self, start_ns: int, end_ns: int) -> Token:
        """The model chose to end. Its token is not evaluated: after a thought, the answer is still to come."""
        self._count()
        self.unevaluated = []
        if self.thinking:
            self.tag = self._closing_tag
            return Token("", True, start_ns, end_ns)
        self.ended = "stop"
        return Token(self._speech.finish(), False, start_ns, end_ns)

    def _count(self) -> None:
        self._sampled += 1
        self._thought += self.thinking

    def _close_when_spent(self) -> None:
        if self.thinking and self._thought >= self._thinking_tokens:
            self.tag = self._closing_tag
