"""Speculative decoding: something cheap drafts the next tokens, the model evaluates all of them in one batch and keeps
those that it would have chosen itself.

What comes out is what comes out without drafting: every token is chosen by the model's own sampler from its own
logits, and a draft decides only whether they are there already. (https://arxiv.org/abs/2211.17192; a draft is kept here
when it equals the choice, which is the same for greedy decoding and simpler with penalties.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agent.errors import TurnscopeError
from agent.llm.bytes_read import BytesRead
from agent.llm.context import Context, ContextSettings
from agent.llm.gguf import GgufModel, require_gguf
from agent.llm.gguf_header import GgufHeader
from agent.llm.kv_cache import KvCache
from agent.llm.protocol import ShouldStop
from agent.llm.sampling import Sampler, Sampling


@dataclass
class Draft:
    """Tokens that may come next, and what drafting them read (None where it is not known)."""

    tokens: list[int]
    weight_bytes: int | None = 0
    kv_bytes: int | None = 0

    def add_read(self, reads: BytesRead, batch_tokens: int, depth: int) -> None:
        self.weight_bytes = added(self.weight_bytes, reads.weight_bytes(batch_tokens))
        self.kv_bytes = added(self.kv_bytes, reads.kv_bytes(depth))


def added(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


class Drafter(Protocol):
    def prefill(self, tokens: Sequence[int], should_stop: ShouldStop) -> None:
        """Take up a prompt, after the model has evaluated it."""
        ...

    def draft(self, tokens: Sequence[int], count: int, should_stop: ShouldStop) -> Draft:
        """At most `count` tokens that may follow `tokens`, of which the model has evaluated all but the last."""
        ...

    def evaluated(self, start: int, tokens: Sequence[int]) -> None:
        """The model has just evaluated a batch of tokens, from position `start`."""
        ...

    def close(self) -> None: ...


class DraftModel:
    """A smaller model with the same vocabulary, in a context of its own. It takes the likeliest tokens, and is rolled
    back when it goes on from what the model made of its last draft."""

    def __init__(self, model: GgufModel, target: Context, settings: ContextSettings) -> None:
        require_same_vocabulary(model, target.model)
        self._model = model
        tokens = min(target.tokens, model.trained_context_tokens)
        self._context = Context(model, replace(settings, context_tokens=tokens, verified_tokens=1))
        self._cache = KvCache(self._context)
        self._sampler = Sampler(self._context, Sampling())

    def prefill(self, tokens: Sequence[int], should_stop: ShouldStop) -> None:
        if len(tokens) <= self._context.tokens:
            have = self._cache.begin(tokens, reevaluate_last=False)
            self._cache.evaluate(tokens[have:], should_stop)

    def draft(self, tokens: Sequence[int], count: int, should_stop: ShouldStop) -> Draft:
        draft = Draft([])
        new = tokens[self._cache.begin(tokens, reevaluate_last=True) :]
        while len(draft.tokens) < count and len(self._cache.tokens) + len(new) <= self._context.tokens:
            if should_stop() or not self._cache.evaluate(new, should_stop):
                break
            draft.add_read(self._model.reads, len(new), len(self._cache.tokens))
            token = self._sampler.sample()
            if token in self._model.end_tokens:
                break
            draft.tokens.append(token)
            new = [token]
        return draft

    def evaluated(self, start: int, tokens: Sequence[int]) -> None:
        """Nothing: this model evaluates tokens itself when it drafts."""

    def close(self) -> None:
        self._sampler.close()
        self._context.close()
        self._model.close()


def require_same_vocabulary(model: GgufModel, target: GgufModel) -> None:
    if model.header.vocabulary != target.header.vocabulary:
        raise TurnscopeError(
            f"{model.path} cannot draft for {target.path}, because their vocabularies differ: give a smaller model of "
            "the same family."
        )


def is_same_file(draft: Path, path: Path) -> bool:
    return draft.exists() and path.exists() and draft.samefile(path)


def open_drafter(
    draft: Path, target: Context, settings: ContextSettings, *, gpu_layers: int | None, main_gpu: int | None
) -> Drafter:
    """What drafts for `target`: the multi-token head of its own file, when `draft` is that file; those of a file that
    holds heads alone; or another model. `gpu_layers` and `main_gpu` are those of `GgufModel`, for what is loaded
    besides. Raises TurnscopeError for a file that cannot."""
    from agent.llm.multi_token import MultiTokenHead  # it rests on calls that llama-cpp-python calls experimental

    if is_same_file(draft, target.model.path):
        return MultiTokenHead(target.model, target, settings)
    require_gguf(draft)
    heads_only = GgufHeader(draft).has_only_heads
    model = GgufModel(draft, gpu_layers=gpu_layers, main_gpu=main_gpu, multi_token_heads=heads_only)
    return (MultiTokenHead if heads_only else DraftModel)(model, target, settings)
