"""A generation read to its end."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.llm.protocol import Finished, Prefill, Token


@dataclass
class Read:
    prefill: Prefill | None
    tokens: list[Token]
    finished: Finished | None

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def unspoken(self) -> list[Token]:
        return [token for token in self.tokens if token.unspoken]


def read(items: Iterable[Prefill | Token | Finished]) -> Read:
    """Read a generation and check its order: one Prefill (none when cancelled in it), tokens, one Finished."""
    seen = list(items)
    last = seen.pop()
    assert isinstance(last, Finished)
    first = seen.pop(0) if seen else None
    assert first is None or isinstance(first, Prefill)
    tokens = [item for item in seen if isinstance(item, Token)]
    assert len(tokens) == len(seen)
    assert first is not None or last.reason == "cancelled"
    return Read(first, tokens, last)
