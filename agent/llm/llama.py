"""A language model from any GGUF file, through llama.cpp's low-level calls: prefill, decode, stop, and a KV cache
that is kept from one call to the next."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.errors import TurnscopeError
from agent.llm.context import Context, ContextSettings
from agent.llm.decode import Decoder
from agent.llm.gguf import GgufModel
from agent.llm.kv_cache import KvCache
from agent.llm.prompt_tokens import PromptTokenizer
from agent.llm.prompts import ChatTemplate
from agent.llm.protocol import Finished, Message, Prefill, ShouldStop, Token
from agent.llm.reply import Reply
from agent.llm.sampling import Sampling
from agent.llm.speculative import Drafter, is_same_file, open_drafter
from agent.llm.stopping import never
from agent.llm.thinking import CHANNEL, THINK, ThoughtTags
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute


class LlamaEngine:
    """One model, one context, one generation at a time: a new one ends an older one that is still suspended.

    `context_tokens`, `batch_tokens`, `micro_batch_tokens`, `threads`, `prefill_threads`, `flash_attention` and
    `swa_full` are those of `ContextSettings`, `gpu_layers` and `main_gpu` those of `GgufModel`. `thinking` says how to
    render a conversation until `generate` knows. `draft` is the GGUF file that drafts `draft_tokens` at a time: a
    smaller model with the same vocabulary, the model's multi-token heads, or its own file when that has some; the reply
    is the same as without. `temperature` 0 is greedy. The same conversation gives the same reply: the seed starts anew
    with each. Raises TurnscopeError for a file or a setting that cannot serve. `weights_bytes`, `parameters`,
    `context_tokens` and `weight_bytes_per_token` (None where it is not known) describe the model.

    **Thinking.** A model with Gemma's `<|channel>` thinks when its template asks it to, others because `<think>` is put
    into their mouth. Templates drop thoughts and empty channels from the history, so that what the KV cache holds of a
    turn is good only up to where its reply began: `prefill`, with the reply in the messages, makes up for it while the
    reply plays.

    **What the times cover.** `Prefill` is the evaluation of the prompt, by what drafts too; rendering and tokenising it
    come before `start_ns`. A sampled token covers the evaluation of the token before it and the choice of this one, so
    that it is out as soon as it is known; the first covers the choice only. The tokens of an injected tag are evaluated
    in one batch and share its time evenly. The first token of a draft covers the drafting and the evaluation of all of
    it, the others their choice. The intervals follow one another without overlap, and without gap but for the time that
    the consumer holds the generator, which is no token's. The token that ends the reply comes as a last visible Token,
    usually with no text.

    **What the bytes are.** Those of the evaluations in the interval, as `BytesRead` counts them. A batch reads the
    weights once, and its first token has them all; the first sampled token has none.
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
        micro_batch_tokens: int | None = None,
        gpu_layers: int | None = None,
        main_gpu: int | None = None,
        flash_attention: bool | None = None,
        swa_full: bool = True,
        draft: Path | None = None,
        draft_tokens: int = 4,
        thinking: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.model = name or path.stem
        self._clock = clock
        settings = ContextSettings(
            context_tokens=context_tokens,
            batch_tokens=batch_tokens,
            micro_batch_tokens=micro_batch_tokens,
            threads=threads,
            prefill_threads=prefill_threads,
            flash_attention=flash_attention,
            swa_full=swa_full,
            verified_tokens=1 if draft is None else 1 + draft_tokens,
        )
        own_heads = draft is not None and is_same_file(draft, path)
        self._gguf = GgufModel(path, gpu_layers=gpu_layers, main_gpu=main_gpu, multi_token_heads=own_heads)
        self._context = Context(self._gguf, settings)
        self.weights_bytes = self._gguf.weights_bytes
        self.parameters = self._gguf.parameters
        self.context_tokens = self._context.tokens
        self.weight_bytes_per_token = self._gguf.reads.weight_bytes()
        self.attributes: Mapping[str, Attribute] = (
            {} if self.weight_bytes_per_token is None else {v.LLM_WEIGHT_BYTES: self.weight_bytes_per_token}
        )
        self._template = ChatTemplate(
            self._gguf.metadata("tokenizer.chat_template"),
            bos=self._gguf.token_text(self._gguf.bos),
            eos=self._gguf.token_text(self._gguf.eos),
            name=str(path),
        )
        self._drafter: Drafter | None = None
        if draft is not None:
            self._drafter = open_drafter(draft, self._context, settings, gpu_layers=gpu_layers, main_gpu=main_gpu)
        self._cache = KvCache(self._context, self._drafter.evaluated if self._drafter else None)
        self._prompts = PromptTokenizer(self._gguf, self._cache)
        self._tags = _thought_tags(self._gguf)
        self._opening_tag = self._gguf.tokenize(self._tags.opening, special=True)
        self._closing_tag = self._gguf.tokenize(self._tags.closing, special=True)
        sampling = Sampling.for_size(self.parameters, temperature=temperature, seed=seed)
        self._decoder = Decoder(self._context, self._cache, clock, sampling, self._tags, self._drafter, draft_tokens)
        self._thinking = thinking
        self._generation = 0

    def kv_bytes(self, depth: int) -> int | None:
        """What the evaluation of a token reads of the KV cache when it attends to `depth` tokens, itself among them."""
        return self._gguf.reads.kv_bytes(depth)

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        """See the protocol. When `should_stop` turns true during prefill, there is no Prefill, only Finished."""
        self._generation += 1
        generation = self._generation
        taken_ns = self._clock.now_ns()
        self._thinking = thinking_tokens > 0
        pieces = self._template.render(messages, thinking=self._thinking)
        prompt = self._prompts.tokenize(pieces, messages)
        self._require_room(len(prompt.tokens), thinking_tokens)
        prefill = self._prefill(prompt.tokens, should_stop, taken_ns, reply_follows=True)
        if prefill is None:
            yield Finished("cancelled")
            return
        self._decoder.restart(prompt.said)
        yield prefill

        def stopped() -> bool:
            return should_stop() or generation != self._generation

        reply = Reply(
            thinking_tokens,
            max_tokens,
            opening_tag=self._opening_tag,
            closing_tag=self._closing_tag,
            tags=self._tags,
            begins_in_thought=pieces[-1].message is None and pieces[-1].text.rstrip().endswith(self._tags.opening),
        )
        while reply.ended is None:
            if stopped():
                reply.ended = "cancelled"
            elif reply.is_long_enough() or self._is_full(reply):
                reply.ended = "length"
            else:
                yield from self._step(reply, stopped)
        yield Finished(reply.ended, self._counts())

    def prefill(self, messages: Sequence[Message], *, should_stop: ShouldStop) -> Prefill | None:
        """Put into the KV cache what is certain of a conversation that goes on: after a user message, more words of
        it may follow; after a reply, the user speaks next. None when `should_stop` turned true. Ends a generation
        that is suspended."""
        self._generation += 1
        taken_ns = self._clock.now_ns()
        prompt = self._prompts.tokenize(self._template.render_start(messages, thinking=self._thinking), messages)
        self._require_room(len(prompt.tokens), 0)
        return self._prefill(prompt.tokens, should_stop, taken_ns, reply_follows=False)

    def warm_up(self, messages: Sequence[Message]) -> None:
        """See the protocol. These messages, examples among them, do not count as said: a reply may repeat their
        words."""
        self._prompts.opening = list(messages)
        self.prefill(messages, should_stop=never)
        self._decoder.warm_up(self._gguf.tokenize("a", special=False)[0])

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Length of the prompt for a reply to these messages."""
        pieces = self._template.render(messages, thinking=self._thinking)
        return len(self._prompts.tokenize(pieces, messages).tokens)

    def close(self) -> None:
        """Free the model. The engine cannot be used afterwards."""
        self._generation += 1
        self._decoder.close()
        if self._drafter is not None:
            self._drafter.close()
        self._context.close()
        self._gguf.close()

    def _step(self, reply: Reply, stopped: ShouldStop) -> Iterator[Token]:
        """One step's tokens. Those of a draft are there all at once, but come out only until somebody stops."""
        for at, token in enumerate(self._decoder.step(reply, stopped)):
            if at and stopped():
                reply.ended = "cancelled"
                return
            yield token

    def _prefill(
        self, tokens: list[int], should_stop: ShouldStop, taken_ns: int, *, reply_follows: bool
    ) -> Prefill | None:
        start_ns = self._clock.now_ns()
        cached = self._cache.begin(tokens, reevaluate_last=reply_follows)
        if not self._cache.evaluate(tokens[cached:], should_stop):
            return None
        if self._drafter is not None:
            self._drafter.prefill(tokens, should_stop)
        return Prefill(taken_ns, start_ns, self._clock.now_ns(), len(tokens), cached, len(tokens) - cached)

    def _counts(self) -> dict[str, Attribute]:
        if self._drafter is None:
            return {}
        return {v.LLM_DRAFTED_TOKENS: self._decoder.drafted, v.LLM_ACCEPTED_TOKENS: self._decoder.accepted}

    def _thought_room(self, thinking_tokens: int) -> int:
        return thinking_tokens + len(self._opening_tag) + len(self._closing_tag) if thinking_tokens > 0 else 0

    def _is_full(self, reply: Reply) -> bool:
        return len(self._cache.tokens) + len(reply.unevaluated) + len(reply.tag) > self.context_tokens

    def _require_room(self, prompt_tokens: int, thinking_tokens: int) -> None:
        needed = prompt_tokens + self._thought_room(thinking_tokens) + 1
        if prompt_tokens < self.context_tokens < needed:
            raise TurnscopeError(
                f"A thought of {thinking_tokens} tokens does not fit beside a conversation of {prompt_tokens} into the "
                f"context of {self.model}, which has {self.context_tokens}: lower the thinking budget, shorten "
                "the system prompt, or choose a larger context."
            )
        if needed > self.context_tokens:
            raise TurnscopeError(
                f"The conversation needs {needed} tokens, but the context of {self.model} has {self.context_tokens}: "
                "shorten the system prompt, drop the oldest turns, or choose a larger context."
            )


def _thought_tags(model: GgufModel) -> ThoughtTags:
    """Gemma's where the vocabulary has a token for each of them."""
    known = all(len(model.tokenize(text, special=True)) == 1 for text in (CHANNEL.opening, CHANNEL.closing))
    return CHANNEL if known else THINK
