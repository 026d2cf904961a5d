"""A language model behind an OpenAI-compatible server (vLLM, llama-server, llama_cpp.server), over HTTP."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import PurePosixPath
from typing import Literal

from agent.llm.http_address import one_line
from agent.llm.http_chunk import Chunk, Figures
from agent.llm.http_errors import ContextOverflow, only_thought, said_nothing
from agent.llm.http_reply import HttpReply
from agent.llm.http_request import GRACE_TOKENS, PromptEstimate, chat_body, refused_field
from agent.llm.http_server import Refused, Server
from agent.llm.protocol import Finished, Message, Prefill, ShouldStop, Token
from agent.llm.sse import Stopped
from agent.llm.stopping import never
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute

Reason = Literal["stop", "length", "cancelled"]
Opening = Callable[[Figures, int, int], Prefill | Token]

TIMEOUT_S = 60.0
DEFAULT_CONTEXT_TOKENS = 4096


class HttpLlmEngine:
    """The model `model` of the server at `url` ("http://HOST:PORT/v1"), or the only one that it serves.

    `context_tokens` counts where the server does not tell its own, or tells more; without either it is 4096, and it
    shrinks to what fits once the server refused a conversation. `temperature` 0 asks for the likeliest token. Raises
    TurnscopeError when there is no such server or model. The server may send nothing of its answer for `timeout_s` at
    most.

    **What the times cover** is what is seen from here, the network included. `Prefill` lasts from the request, its
    connection included, to the first event that carries a token; its counts are None where the server tells them only
    at the end. A token lasts from the event before it to its own (see `HttpReply` for events of several tokens, and for
    those that come together); the tokens of the first event take no time. The server's own times, token counts and
    accepted drafts come with `Finished.attributes`, where it gives them.

    **Thinking.** The server is told whether to think, and the budget, by the parameters of vLLM and llama-server: a
    closing tag cannot be injected from here. A thought that goes on for GRACE_TOKENS beyond the budget all the same,
    or that ends without a word, is given up: its request is ended and the model is asked again not to think. The wait
    for that answer is one unspoken token, and the thought is lost. With a budget of 0, a model that thinks although it
    was told not to is let be.

    A field of the request that the server refuses by name is left out from then on.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        model: str | None = None,
        api_key: str | None = None,
        context_tokens: int | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._clock = clock
        self._server = Server(url, clock=clock, timeout_s=timeout_s, api_key=api_key)
        served = self._server.model(model)
        self._name = served.name
        self.model = _displayed(served.name)
        self.attributes: Mapping[str, Attribute] = {
            v.SERVER_ADDRESS: self._server.host,
            v.SERVER_PORT: self._server.port,
        }
        known = [tokens for tokens in (served.context_tokens, context_tokens) if tokens is not None]
        self.context_tokens = min(known, default=DEFAULT_CONTEXT_TOKENS)
        self._temperature, self._seed = temperature, seed
        self._unknown_fields: set[str] = set()
        self._estimate = PromptEstimate()
        self._generation = 0

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        """See the protocol. An estimate, rather too high than too low; the network is not asked."""
        return self._estimate.tokens(messages)

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        """See the protocol. When `should_stop` turns true, the connection is closed, which stops the server. When that
        is before the first token, there is no Prefill, only Finished."""
        self._generation += 1
        generation = self._generation
        replies: list[HttpReply] = []
        try:
            reason = yield from self._answer(
                messages,
                thinking_tokens,
                max_tokens,
                lambda: should_stop() or generation != self._generation,
                replies,
            )
        except Stopped:
            reason: Reason = "cancelled"
        except ContextOverflow:
            self.context_tokens = min(self.context_tokens, self.prompt_tokens(messages))
            raise
        yield Finished(reason, _attributes(replies))

    def prefill(self, messages: Sequence[Message], *, should_stop: ShouldStop) -> Prefill | None:
        """See the protocol. The server keeps its cache as it likes."""
        return None

    def warm_up(self, messages: Sequence[Message]) -> None:
        """See the protocol: one request of one token. It teaches the engine the fields that the server refuses, and how
        long prompts are."""
        asked = list(messages)
        if not asked or asked[-1].role != "user":
            asked.append(Message("user", "Hello."))
        reply = HttpReply(max_tokens=1)
        for _ in self._request(reply, asked, 0, 1, never, lambda figures, start, end: Token("", True, start, end)):
            continue

    def _answer(
        self,
        messages: Sequence[Message],
        thinking_tokens: int,
        max_tokens: int,
        should_stop: ShouldStop,
        replies: list[HttpReply],
    ) -> Generator[Prefill | Token, None, Reason]:
        taken_ns = self._clock.now_ns()

        def prefill(figures: Figures, start_ns: int, end_ns: int) -> Prefill:
            counts = figures.prompt_tokens, figures.cached_tokens, figures.evaluated_tokens
            return Prefill(taken_ns, start_ns, end_ns, *counts)

        def end_of_thought(_: Figures, start_ns: int, end_ns: int) -> Token:
            return Token("", True, start_ns, end_ns)

        replies.append(HttpReply(max_tokens=max_tokens, thinking_tokens=thinking_tokens))
        reason = yield from self._request(replies[0], messages, thinking_tokens, max_tokens, should_stop, prefill)
        if replies[0].thought and not replies[0].said and thinking_tokens > 0:
            replies.append(HttpReply(max_tokens=max_tokens))
            reason = yield from self._request(replies[1], messages, 0, max_tokens, should_stop, end_of_thought)
        if replies[-1].thought and not replies[-1].said:
            raise only_thought(self._server.url, sum(reply.thought for reply in replies))
        if not replies[-1].said:
            raise said_nothing(self._server.url, replies[-1].finish_reason)
        return reason

    def _request(
        self,
        reply: HttpReply,
        messages: Sequence[Message],
        thinking_tokens: int,
        max_tokens: int,
        should_stop: ShouldStop,
        opening: Opening,
    ) -> Generator[Prefill | Token, None, Reason]:
        """One request: what `opening` makes of the wait for the first token, then the tokens."""
        start_ns = self._clock.now_ns()
        begun = cut = False
        with closing(self._chunks(messages, thinking_tokens, max_tokens, should_stop)) as chunks:
            for chunk in chunks:
                if should_stop():
                    raise Stopped
                end_ns = self._clock.now_ns()
                tokens = reply.take(chunk, start_ns if begun else end_ns, end_ns)
                if not begun and (tokens or chunk.finish_reason is not None):
                    begun = True
                    yield opening(reply.figures, start_ns, end_ns)
                yield from tokens
                if reply.cut or (reply.finish_reason is None and _is_too_long(reply, thinking_tokens, max_tokens)):
                    cut = True
                    break
                if begun:
                    start_ns = self._clock.now_ns()
        if reply.figures.prompt_tokens:
            self._estimate.learn(messages, reply.figures.prompt_tokens)
        return "length" if cut or reply.finish_reason == "length" else "stop"

    def _chunks(
        self, messages: Sequence[Message], thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Generator[Chunk, None, None]:
        """The events of the completion. A field that the server refuses by name is left out, now and from now on."""
        without = set(self._unknown_fields)
        while True:
            body = chat_body(
                self._name,
                messages,
                thinking_tokens=thinking_tokens,
                max_tokens=max_tokens,
                temperature=self._temperature,
                seed=self._seed,
                without=without,
            )
            try:
                with closing(self._server.chat(body, messages, should_stop)) as chunks:
                    for chunk in chunks:
                        self._unknown_fields = without
                        yield chunk
                return
            except Refused as refusal:
                field = refused_field(refusal.told.fields, without)
                if field is None:
                    raise
                without.add(field)


def _is_too_long(reply: HttpReply, thinking_tokens: int, max_tokens: int) -> bool:
    """Whether the reply has had all it may; without a thinking budget, whether the server passes over `max_tokens`."""
    if thinking_tokens == 0:
        return reply.thought + reply.spoken > max_tokens + GRACE_TOKENS
    overthought = reply.thinking and reply.thought > thinking_tokens + GRACE_TOKENS
    return overthought or reply.is_long_enough()


def _attributes(replies: Sequence[HttpReply]) -> dict[str, Attribute]:
    figures = [reply.figures for reply in replies]
    return (figures[0].then(figures[1]) if len(figures) == 2 else figures[0]).attributes()


def _displayed(name: str) -> str:
    """llama_cpp.server names a model by the path of its file."""
    return one_line(PurePosixPath(name).stem if name.endswith(".gguf") else name) or "a model without a name"
