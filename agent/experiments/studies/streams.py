"""One context of llama.cpp in which several sequences, each a reply of its own, get a token in every step."""

import weakref
from collections.abc import Sequence
from typing import Any

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.context import opened
from agent.llm.gguf import GgufModel, last_error


def most_streams() -> int:
    """As many as llama.cpp can hold in one context."""
    return int(lib.llama_max_parallel_sequences())


class Streams:
    """`count` sequences of up to `tokens` tokens each. All numbers of rows are computed by `threads`: llama.cpp would
    give single tokens others than batches. `callback` is llama.cpp's around the nodes of the graph. Raises
    TurnscopeError where the model or the memory cannot have them."""

    def __init__(
        self,
        model: GgufModel,
        count: int,
        tokens: int,
        *,
        threads: int,
        prompt_tokens: int,
        flash_attention: bool,
        callback: Any = None,
    ) -> None:
        self._model, self._count, self._depth = model, count, 0
        batch = max(count, prompt_tokens)
        params = lib.llama_context_default_params()
        params.n_seq_max = count
        params.n_ctx = max(count * tokens, prompt_tokens)
        params.n_batch = params.n_ubatch = batch
        params.n_outputs_max = count
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.no_perf = True
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_AUTO if flash_attention else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        if model.gpu_layers == 0:
            params.offload_kqv = params.op_offload = False
        if callback is not None:
            params.cb_eval = callback
        self._handle = opened(model, params)
        self._batch = lib.llama_batch_init(batch, 0, 1)
        self._free = weakref.finalize(self, _free, self._handle, self._batch)
        self._memory: Any = lib.llama_get_memory(self._handle)

    def clear(self) -> None:
        """Forget all that was evaluated."""
        lib.llama_memory_clear(self._memory, False)
        self._depth = 0

    def step(self, tokens: Sequence[int]) -> None:
        """One more token for each of the first streams, which have as many; their next tokens' logits are computed
        too."""
        for at, token in enumerate(tokens):
            self._put(at, token, self._depth, at)
        self._depth += 1
        self._evaluate(len(tokens))

    def prompt(self, tokens: Sequence[int]) -> None:
        """The first stream's first tokens, in one batch; only it has further steps."""
        for at, token in enumerate(tokens):
            self._put(at, token, at, 0, chosen_after=at == len(tokens) - 1)
        self._depth = len(tokens)
        self._evaluate(len(tokens))

    def close(self) -> None:
        self._free()

    def _put(self, at: int, token: int, position: int, stream: int, *, chosen_after: bool = True) -> None:
        batch = self._batch
        batch.token[at], batch.pos[at] = token, position
        batch.n_seq_id[at], batch.seq_id[at][0] = 1, stream
        batch.logits[at] = chosen_after

    def _evaluate(self, count: int) -> None:
        self._batch.n_tokens = count
        status = lib.llama_decode(self._handle, self._batch)
        lib.llama_synchronize(self._handle)
        if status != 0:
            raise TurnscopeError(
                f"llama.cpp failed to evaluate {count} tokens of {self._count} streams of {self._model.path} (status "
                f"{status}: {last_error()})."
            )


def _free(handle: Any, batch: Any) -> None:
    lib.llama_batch_free(batch)
    lib.llama_free(handle)
