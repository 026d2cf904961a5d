"""One step of decoding: evaluate what the cache lacks, and choose the next token, or several that were drafted."""

from collections.abc import Sequence
from dataclasses import replace

from agent.llm.context import Context
from agent.llm.kv_cache import KvCache
from agent.llm.protocol import ShouldStop, Token
from agent.llm.reply import Reply, Work
from agent.llm.sampling import Sampler, Sampling
from agent.llm.speculative import Draft, Drafter, added
from agent.llm.stopping import never
from agent.llm.thinking import ThoughtTags
from profiling.trace.clock import Clock


class Decoder:
    """Between two steps the cache holds all that was generated but for the token chosen last. `drafted` and `accepted`
    count the tokens of a generation's drafts."""

    def __init__(
        self,
        context: Context,
        cache: KvCache,
        clock: Clock,
        sampling: Sampling,
        tags: ThoughtTags,
        drafter: Drafter | None,
        draft_tokens: int,
    ) -> None:
        self._context, self._model = context, context.model
        self._cache = cache
        self._clock = clock
        self._speaker = Sampler(context, sampling)
        self._thinker = Sampler(context, replace(sampling, one_paragraph=False))
        self._tags = [self._model.tokenize(text, special=True) for text in (tags.opening, tags.closing)]
        self._drafter = drafter
        self._draft_tokens = draft_tokens
        self.drafted = self.accepted = 0

    def restart(self, said: Sequence[Sequence[int]]) -> None:
        """Begin a generation; `said`, the tokens of earlier messages, count as repetition."""
        self._speaker.restart(said)
        self._thinker.restart([])
        self.drafted = self.accepted = 0

    def step(self, reply: Reply, should_stop: ShouldStop) -> list[Token]:
        """The tokens of an injected tag; or one token; or those of a draft that the model would have chosen, and the
        one that it chooses after them. An empty list, and the reply has ended, when `should_stop` turned true in the
        evaluation.
        """
        start_ns = self._clock.now_ns()
        cached = list(self._cache.tokens)
        draft = self._draft(reply, should_stop)
        new = [*reply.unevaluated, *reply.tag, *draft.tokens]
        if not self._cache.evaluate(new, should_stop, verify=bool(draft.tokens)):
            reply.ended = "cancelled"
            return []
        read = self._read(len(new), draft)
        if reply.tag:
            return reply.injected(Work(start_ns, self._clock.now_ns(), *read))
        tokens = self._choices(reply, draft.tokens, start_ns, read)
        if draft.tokens and not self._go_on_from([*cached, *new][: len(cached) + len(tokens)], should_stop):
            reply.ended = reply.ended or "cancelled"
        return tokens

    def _draft(self, reply: Reply, should_stop: ShouldStop) -> Draft:
        count = min(self._draft_tokens, reply.room - 1, self._context.tokens - len(self._cache.tokens) - 1)
        if self._drafter is None or not reply.unevaluated or reply.tag or count < 1:
            return Draft([])
        draft = self._drafter.draft([*self._cache.tokens, *reply.unevaluated], count, should_stop)
        self.drafted += len(draft.tokens)
        return draft

    def _read(self, batch_tokens: int, draft: Draft) -> tuple[int | None, int | None]:
        """What drafting and the evaluation of a batch read of the weights and of the KV cache."""
        if not batch_tokens:
            return 0, 0
        reads = self._model.reads
        return (
            added(draft.weight_bytes, reads.weight_bytes(batch_tokens)),
            added(draft.kv_bytes, reads.kv_bytes(len(self._cache.tokens))),
        )

    def _choices(
        self, reply: Reply, drafted: Sequence[int], start_ns: int, read: tuple[int | None, int | None]
    ) -> list[Token]:
        """Choose the next token, and as long as it is the drafted one and the reply goes on, the one after it."""
        tokens: list[Token] = []
        for at in range(-len(drafted) - 1, 0):
            chosen, token = self._choose(reply, at, start_ns, read)
            tokens.append(token)
            fits = at < -1 and chosen == drafted[at + 1]
            self.accepted += fits
            if not fits or reply.ended or reply.tag or reply.is_long_enough():
                break
            start_ns, read = token.end_ns, (0, 0)
        return tokens

    def _choose(self, reply: Reply, at: int, start_ns: int, read: tuple[int | None, int | None]) -> tuple[int, Token]:
        """The token after the one at `at` of the batch, counted from its end."""
        sampler = self._thinker if reply.thinking else self._speaker
        chosen = sampler.sample(at, may_end=reply.thinking or reply.has_begun)
        work = Work(start_ns, self._clock.now_ns(), *read)
        if chosen in self._model.end_tokens:
            return chosen, reply.sampled_end(work)
        # A tag that is one token may be a control token, which has no text otherwise.
        piece = self._model.piece(chosen, special=[chosen] in self._tags)
        return chosen, reply.sampled(chosen, piece, work)

    def _go_on_from(self, tokens: list[int], should_stop: ShouldStop) -> bool:
        """Take back what was drafted in vain. A memory that cannot be rolled back is filled anew."""
        have = self._cache.begin(tokens, reevaluate_last=False)
        return self._cache.evaluate(tokens[have:], should_stop)

    def warm_up(self, token: int) -> None:
        """Run the decode path once, behind what is in the cache, which is as before afterwards."""
        kept = len(self._cache.tokens)
        for _ in range(min(2, self._context.tokens - kept)):
            self._cache.evaluate([token], never)
            self._speaker.sample()
        if self._drafter is not None and len(self._cache.tokens) < self._context.tokens:
            self._drafter.draft([*self._cache.tokens, token], 1, never)
        self._cache.roll_back(kept)

    def close(self) -> None:
        self._speaker.close()
        self._thinker.close()
