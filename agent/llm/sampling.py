"""Which token comes next: a chain of llama.cpp's samplers."""

import ctypes
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.context import Context

_NEVER = float("-inf")
_DRY_BASE = 1.75
SMALL_MODEL_PARAMETERS = 1_000_000_000


@dataclass(frozen=True)
class Sampling:
    """`temperature` 0 takes the likeliest token; above, one is drawn with `seed` among those at least `min_p` times
    as likely as the best.

    `repeat_penalty` divides the logit of each token of the last `window_tokens`; DRY subtracts `dry_multiplier *
    1.75 ** (n - dry_allowed_tokens)` from a token that would extend a sequence of n tokens said before. Both look at
    what user and assistant said earlier too. With `one_paragraph` no token with a line break is chosen.
    """

    temperature: float = 0.0
    seed: int = 0
    top_k: int = 40
    min_p: float = 0.1
    repeat_penalty: float = 1.0
    dry_multiplier: float = 0.0
    dry_allowed_tokens: int = 2
    window_tokens: int = 256
    one_paragraph: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 5:
            raise TurnscopeError(
                f"The temperature {self.temperature} is not possible: choose from 0 (always the likeliest word) to 5."
            )
        if not 0 <= self.seed < 2**32 - 1:
            raise TurnscopeError(f"The seed {self.seed} is not possible: choose from 0 to 4294967294.")

    @classmethod
    def for_size(cls, parameters: int, *, temperature: float, seed: int) -> "Sampling":
        """A model of less than a billion parameters soon answers with its last reply or with the question, and does
        not come to an end: it is kept from repeating and to one paragraph. Larger ones write as they like."""
        if parameters >= SMALL_MODEL_PARAMETERS:
            return cls(temperature, seed)
        return cls(temperature, seed, repeat_penalty=1.05, dry_multiplier=2.0, one_paragraph=True)


class Sampler:
    """One chain of samplers on one context. Tokens that the file suppresses are never chosen."""

    def __init__(self, context: Context, sampling: Sampling) -> None:
        self._context = context
        self._model = model = context.model
        self._window_tokens = sampling.window_tokens
        self._separator = model.tokenize("\n", special=False)[-1:]
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        self._finalizer = weakref.finalize(self, lib.llama_sampler_free, self._chain)
        self._build(sampling)

    def _build(self, sampling: Sampling) -> None:
        model, add = self._model, partial(lib.llama_sampler_chain_add, self._chain)
        banned = model.suppressed_tokens()
        if sampling.one_paragraph:
            banned += [token for token in range(model.vocab_tokens) if b"\n" in model.piece(token)]
        if banned:
            biases = (lib.llama_logit_bias * len(banned))(*(lib.llama_logit_bias(token, _NEVER) for token in banned))
            add(lib.llama_sampler_init_logit_bias(model.vocab_tokens, len(banned), biases))
        # First of all few candidates are left: those that follow look at each, and the vocabulary may be large.
        add(lib.llama_sampler_init_top_k(sampling.top_k))
        window, allowed = sampling.window_tokens, sampling.dry_allowed_tokens
        breakers = (ctypes.c_char_p * 1)(b"\n")
        add(lib.llama_sampler_init_dry(model.vocab, sampling.dry_multiplier, _DRY_BASE, allowed, window, breakers, 1))
        add(lib.llama_sampler_init_penalties(model.vocab_tokens, window, sampling.repeat_penalty, 0.0, 0.0))
        if sampling.temperature == 0:
            add(lib.llama_sampler_init_greedy())
            return
        add(lib.llama_sampler_init_min_p(sampling.min_p, 1))
        add(lib.llama_sampler_init_temp(sampling.temperature))
        add(lib.llama_sampler_init_dist(sampling.seed))

    def restart(self, said: Iterable[Sequence[int]]) -> None:
        """Begin a generation: the seed starts anew, and `said`, the tokens of earlier messages, count as repetition."""
        lib.llama_sampler_reset(self._chain)
        earlier = [token for message in said for token in (*message, *self._separator)]
        for token in earlier[-self._window_tokens :]:
            lib.llama_sampler_accept(self._chain, token)

    def sample(self, at: int = -1, *, may_end: bool = True) -> int:
        """Choose the token after the `at`-th of the batch evaluated last, one whose logits are there (-1: the last);
        unless `may_end`, none that ends the generation."""
        if not may_end:
            logits = lib.llama_get_logits_ith(self._context.handle, at)
            for token in self._model.end_tokens:
                logits[token] = _NEVER
        return int(lib.llama_sampler_sample(self._chain, self._context.handle, at))

    def close(self) -> None:
        self._finalizer()
