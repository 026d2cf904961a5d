"""A prompt as tokens: the template's text, and what was said the way it was first written."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import NamedTuple

from agent.llm.gguf import GgufModel
from agent.llm.kv_cache import KvCache
from agent.llm.prompts import Piece
from agent.llm.protocol import Message


class Prompt(NamedTuple):
    """`said` are the tokens of each message of the conversation, its fixed opening aside."""

    tokens: list[int]
    said: list[list[int]]


class PromptTokenizer:
    """Tokenises piece by piece: what is said can neither merge with the template's text nor pose as one of its tags,
    and a reply that is in the cache keeps the tokens by which the model wrote it.

    `opening` are the messages with which every conversation starts.
    """

    def __init__(self, model: GgufModel, cache: KvCache) -> None:
        self._model = model
        self._cache = cache
        self._tokenize = lru_cache(maxsize=1024)(model.tokenize)  # a prompt is mostly that of the turn before
        self.opening: list[Message] = []

    def tokenize(self, pieces: Sequence[Piece], messages: Sequence[Message]) -> Prompt:
        if self._adds_space:
            pieces = [Piece("".join(piece.text for piece in pieces))]
        tokens = [self._model.bos] if self._model.adds_bos else []
        said: list[list[int]] = []
        for piece in pieces:
            new = self._tokens_of(piece, tokens)
            tokens += new[1:] if tokens == new[:1] == [self._model.bos] else new  # the template may write it too
            if piece.message is not None and piece.message.role != "system":
                said.append(new)
        opening = takewhile(lambda pair: pair[0] == pair[1], zip(self.opening, messages, strict=False))
        return Prompt(tokens, said[sum(message.role != "system" for message, _ in opening) :])

    def _tokens_of(self, piece: Piece, before: list[int]) -> list[int]:
        if piece.message is None:
            return self._tokenize(piece.text, special=True)
        if piece.message.role == "assistant" and self._cache.tokens[: len(before)] == before:
            spelled = self._cache.spelling(len(before), piece.text.encode())
            if spelled is not None:
                return spelled
        return self._tokenize(piece.text, special=False)

    @cached_property
    def _adds_space(self) -> bool:
        """Whether this vocabulary's tokeniser puts a space before every text: then a prompt can only be tokenised
        whole."""
        return b"".join(map(self._model.piece, self._model.tokenize("a", special=False))) != b"a"
