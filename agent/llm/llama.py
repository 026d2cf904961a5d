"""A language model from any GGUF file, through llama.cpp's low-level calls: prefill, decode, stop, and a KV cache
that is kept from one call to the next."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from agent.errors import TurnscopeError
from agent.llm.gguf import GgufModel
from agent.llm.kv_cache import KvCache
from agent.llm.prompts import ChatTemplate, Piece
from agent.llm.protocol import Finished, Message, Prefill, ShouldStop, Token
from agent.llm.reply import Reply
from agent.llm.sampling import Sampler, Sampling
from agent.llm.thinking import THINK
from profiling.trace.clock import Clock


class _Prompt(NamedTuple):
    tokens: list[int]
    said: list[list[int]]  # the tokens of each message of the conversation, its fixed opening aside


class LlamaEngine:
    """One model, one context, one generation at a time: a new one ends an older one that is still suspended.

    `threads` serve decode and `prefill_threads` prefill (default: all cores but one, and all); `batch_tokens` is the
    size of a prefill batch; `gpu_layers` of the model's layers go to a GPU. `temperature` 0 is greedy. The same
    conversation gives the same reply: the seed starts anew with each. Raises TurnscopeError for a file that cannot
    serve. `weights_bytes`, `parameters` and `context_tokens` describe the model.

    **What the times cover.** `Prefill` is the evaluation of the prompt; rendering and tokenising it come before
    `start_ns`. A sampled token covers the evaluation of the token before it and the choice of this one, so that it is
    out as soon as it is known; the first covers the choice only. The tokens of an injected tag are evaluated in one
    batch and share its time evenly. The intervals follow one another without overlap, and without gap but for the
    time that the consumer holds the generator, which is no token's. The token that ends the reply comes as a last
    visible Token, usually with no text.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        name: str | None = None,
        context_tokens: int | None = None,
        threads: int | None = None,
        prefill_threads: int | None = None,
        batch_tokens: int | None = None,
        gpu_layers: int = 0,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.model = name or path.stem
        self._clock = clock
        self._gguf = GgufModel(
            path,
            context_tokens=context_tokens,
            batch_tokens=batch_tokens,
            threads=threads,
            prefill_threads=prefill_threads,
            gpu_layers=gpu_layers,
        )
        self.weights_bytes = self._gguf.weights_bytes
        self.parameters = self._gguf.parameters
        self.context_tokens = self._gguf.context_tokens
        self._template = ChatTemplate(
            self._gguf.metadata("tokenizer.chat_template"),
            bos=self._gguf.token_text(self._gguf.bos),
            eos=self._gguf.token_text(self._gguf.eos),
            name=str(path),
        )
        self._tokenize = lru_cache(maxsize=1024)(self._gguf.tokenize)  # a prompt is mostly that of the turn before
        self._cache = KvCache(self._gguf)
        sampling = Sampling.for_size(self.parameters, temperature=temperature, seed=seed)
        self._speaker = Sampler(self._gguf, sampling)
        self._thinker = Sampler(self._gguf, replace(sampling, one_paragraph=False))
        self._opening_tag = self._gguf.tokenize(THINK.opening, special=True)
        self._closing_tag = self._gguf.tokenize(THINK.closing, special=True)
        self._opening: list[Message] = []
        self._generation = 0

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        """See the protocol. When `should_stop` turns true during prefill, there is no Prefill, only Finished."""
        self._generation += 1
        generation = self._generation
        taken_ns = self._clock.now_ns()
        prompt = self._prompt(self._template.render(messages, thinking=thinking_tokens > 0), messages)
        self._require_room(len(prompt.tokens), thinking_tokens)
        prefill = self._prefill(prompt.tokens, should_stop, taken_ns, reply_follows=True)
        if prefill is None:
            yield Finished("cancelled")
            return
        self._speaker.restart(prompt.said)
        self._thinker.restart([])
        yield prefill

        reply = Reply(thinking_tokens, max_tokens, opening_tag=self._opening_tag, closing_tag=self._closing_tag)
        while reply.ended is None:
            if should_stop() or generation != self._generation:
                reply.ended = "cancelled"
            elif reply.is_long_enough() or self._is_full(reply):
                reply.ended = "length"
            else:
                yield from self._step(reply, should_stop)
        yield Finished(reply.ended)

    def prefill(self, messages: Sequence[Message], *, should_stop: ShouldStop) -> Prefill | None:
        """Put into the KV cache what is certain of a conversation that goes on: after a user message, more words of
        it may follow; after a reply, the user speaks next. None when `should_stop` turned true. Ends a generation
        that is suspended."""
        self._generation += 1
        taken_ns = self._clock.now_ns()
        prompt = self._prompt(self._template.render_start(messages, thinking=False), messages)
        self._require_room(len(prompt.tokens), 0)
        return self._prefill(prompt.tokens, should_stop, taken_ns, reply_follows=False)

    def warm_up(self, messages: Sequence[Message]) -> None:
        """See the protocol. These messages, examples among them, do not count as said: a reply may repeat their
        words."""
        self._opening = list(messages)
        self.prefill(messages, should_stop=_never)
        kept = len(self._cache.tokens)
        token = self._gguf.tokenize("a", special=False)[:1]
        for _ in range(min(2, self.context_tokens - kept)):
            self._cache.evaluate(token, _never)
            self._speaker.sample()
        self._cache.roll_back(kept)

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Length of the prompt for a reply to these messages."""
        return len(self._prompt(self._template.render(messages, thinking=False), messages).tokens)

    def close(self) -> None:
        """Free the model. The engine cannot be used afterwards."""
        self._generation += 1
        self._speaker.close()
        self._thinker.close()
        self._gguf.close()

    def _step(self, reply: Reply, should_stop: ShouldStop) -> list[Token]:
        """Evaluate what the cache lacks; choose the next token, unless a tag was injected."""
        start_ns = self._clock.now_ns()
        if not self._cache.evaluate([*reply.unevaluated, *reply.tag], should_stop):
            reply.ended = "cancelled"
            return []
        if reply.tag:
            return reply.injected(start_ns, self._clock.now_ns())
        sampler = self._thinker if reply.thinking else self._speaker
        token = sampler.sample(may_end=reply.thinking or reply.has_begun)
        end_ns = self._clock.now_ns()
        if token in self._gguf.end_tokens:
            return [reply.sampled_end(start_ns, end_ns)]
        # A tag that is one token may be a control token, which has no text otherwise.
        is_tag = [token] in (self._opening_tag, self._closing_tag)
        return [reply.sampled(token, self._gguf.piece(token, special=is_tag), start_ns, end_ns)]

    def _prefill(
        self, tokens: list[int], should_stop: ShouldStop, taken_ns: int, *, reply_follows: bool
    ) -> Prefill | None:
        start_ns = self._clock.now_ns()
        cached = self._cache.begin(tokens, reevaluate_last=reply_follows)
        if not self._cache.evaluate(tokens[cached:], should_stop):
            return None
        return Prefill(taken_ns, start_ns, self._clock.now_ns(), len(tokens), cached, len(tokens) - cached)

    def _prompt(self, pieces: Sequence[Piece], messages: Sequence[Message]) -> _Prompt:
        """Tokenise piece by piece: what is said can neither merge with the template's text nor pose as one of its
        tags, and a reply that is in the cache keeps the tokens by which the model wrote it."""
        if self._adds_space:
            pieces = [Piece("".join(piece.text for piece in pieces))]
        tokens = [self._gguf.bos] if self._gguf.adds_bos else []
        said: list[list[int]] = []
        for piece in pieces:
            new = self._tokens_of(piece, tokens)
            tokens += new[1:] if tokens == new[:1] == [self._gguf.bos] else new  # the template may write it too
            if piece.message is not None and piece.message.role != "system":
                said.append(new)
        opening = takewhile(lambda pair: pair[0] == pair[1], zip(self._opening, messages, strict=False))
        return _Prompt(tokens, said[sum(message.role != "system" for message, _ in opening) :])

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
        return b"".join(map(self._gguf.piece, self._gguf.tokenize("a", special=False))) != b"a"

    def _thought_room(self, thinking_tokens: int) -> int:
        return thinking_tokens + len(self._opening_tag) + len(self._closing_tag) if thinking_tokens > 0 else 0

    def _is_full(self, reply: Reply) -> bool:
        return len(self._cache.tokens) + len(reply.unevaluated) + len(reply.tag) > self.context_tokens

    def _require_room(self, prompt_tokens: int, thinking_tokens: int) -> None:
        needed = prompt_tokens + self._thought_room(thinking_tokens) + 1
        if needed > self.context_tokens:
            raise TurnscopeError(
                f"The conversation needs {needed} tokens, but the context of {self.model} has {self.context_tokens}: "
                "shorten the system prompt, drop the oldest turns, or choose a larger context."
            )


def _never() -> bool:
    return False
