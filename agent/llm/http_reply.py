"""A server's reply as it arrives: how many tokens an event stands for, and what of it is thought and what is said."""

from itertools import pairwise

from agent.llm.http_chunk import Chunk, Figures
from agent.llm.http_request import GRACE_TOKENS, allowed_tokens
from agent.llm.protocol import Token
from agent.llm.thinking import CHANNEL, THINK, Speech

CHARACTERS_PER_TOKEN = 8  # twice as many as a token has on average


class HttpReply:
    """The state of one request for `max_tokens` visible tokens, after a thought of `thinking_tokens` at most.

    **Tokens.** Where the server counts its output in every event (llama-server, vLLM), an event stands for as many
    tokens as the count grew by: its text comes with the last of them, and they share its time evenly. Where it does
    not, every event with text is one token, although it may have been several. Thought is what the server gives apart
    from the content, and what stands between tags in the content; where thought turns into speech, all tokens of the
    event but the last are the tags. A count that cannot be is as none.

    **Times.** The tokens of an event last from the event before it to its own. Those of one that was there already when
    it was asked for take no time: theirs is not known.

    **Length.** What is visible is cut at CHARACTERS_PER_TOKEN for each of the tokens and some more: one may be long.
    """

    def __init__(self, *, max_tokens: int, thinking_tokens: int = 0) -> None:
        self._max_tokens = max_tokens
        self._most_tokens = allowed_tokens(max_tokens, thinking_tokens) + GRACE_TOKENS
        self._room = CHARACTERS_PER_TOKEN * (max_tokens + GRACE_TOKENS)
        self._with_text = 0  # events, each of which is a token at least
        self._figures = Figures()
        self._speeches = [Speech(tags) for tags in (THINK, CHANNEL)]
        self._after_thought = False  # white space between a thought and the text is no part of the text
        self._begun = self._counted = False  # whether there was a token; whether the server counts them
        self._unspoken = False
        self.finish_reason: str | None = None
        self.thought = self.spoken = 0
        self.said = False  # whether a word was
        self.cut = False  # whether there was more text than fits

    @property
    def figures(self) -> Figures:
        """What the server has said of the request, as far as it can be true."""
        return self._figures.of_output(least=self._with_text, most=self._most_tokens)

    @property
    def thinking(self) -> bool:
        """Whether the last token was thought."""
        return self._unspoken

    def is_long_enough(self) -> bool:
        return self.spoken >= self._max_tokens

    def take(self, chunk: Chunk, start_ns: int, end_ns: int) -> list[Token]:
        """The tokens of an event that arrived at `end_ns`, and was waited for from `start_ns` on, if at all."""
        self._figures = self._figures.updated(chunk.figures)
        self._with_text += bool(chunk.content or chunk.thought)
        self.finish_reason = chunk.finish_reason or self.finish_reason
        text, unspoken = self._split(chunk)
        count = self._count(chunk)
        is_last = chunk.finish_reason is not None or (not unspoken and self.spoken + count >= self._max_tokens)
        if is_last and (rest := self._rest()):
            text, unspoken = text + rest, False
        count = max(count, bool(text))
        since_ns = start_ns if chunk.waited else end_ns
        return self._tokens(count, self._fitting(text), unspoken, since_ns, end_ns) if count else []

    def _fitting(self, text: str) -> str:
        self.cut = self.cut or len(text) > self._room
        text = text[: self._room]
        self._room -= len(text)
        return text

    def _split(self, chunk: Chunk) -> tuple[str, bool]:
        if chunk.thought:
            self._after_thought = True
        if not chunk.content:
            return "", bool(chunk.thought) or self._unspoken
        text = chunk.content
        if self._after_thought:
            text = text.lstrip()
            self._after_thought = not text
            if not text:
                return "", True
        return self._said(text)

    def _said(self, text: str) -> tuple[str, bool]:
        unspoken = False
        for speech in self._speeches:
            text, thought = speech.feed(text.encode("utf-8", errors="ignore"))
            unspoken = unspoken or thought
        return text, unspoken

    def _rest(self) -> str:
        """The visible text that waited for the rest of a tag."""
        text = ""
        for speech in self._speeches:
            said, _ = speech.feed(text.encode())
            text = said + speech.finish()
        return text

    def _count(self, chunk: Chunk) -> int:
        counted = self.figures.output_tokens
        if not self._begun and (chunk.content or chunk.thought or counted):
            self._begun, self._counted = True, counted is not None
        if self._counted and counted is not None:
            return max(0, counted - self.thought - self.spoken)
        return bool(chunk.content) + bool(chunk.thought)

    def _tokens(self, count: int, text: str, unspoken: bool, start_ns: int, end_ns: int) -> list[Token]:
        edges = [start_ns + (end_ns - start_ns) * at // count for at in range(count + 1)]
        tags_before = self._unspoken and not unspoken
        kinds = [unspoken or tags_before] * (count - 1) + [unspoken]
        self._unspoken = unspoken
        self.thought += sum(kinds)
        self.spoken += count - sum(kinds)
        self.said = self.said or bool(text.strip())
        texts = [""] * (count - 1) + [text]
        return [Token(text, kind, *times) for text, kind, times in zip(texts, kinds, pairwise(edges), strict=True)]
