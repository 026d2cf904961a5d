"""Where a model evaluates tokens: one context of llama.cpp with one sequence, and the settings to open it with."""

import weakref
from dataclasses import dataclass

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.gguf import GgufModel, last_error, usable_cores

DEFAULT_CONTEXT_TOKENS = 2048
BATCH_TOKENS_ON_CPU, BATCH_TOKENS_ON_GPU = 128, 512  # beyond, larger prefill batches gain nothing and cost memory


@dataclass(frozen=True)
class ContextSettings:
    """`context_tokens` is the size of the KV cache (default: 2048 or what the model was trained for, whichever is
    less). A call evaluates at most `batch_tokens` (default: 128, 512 with layers on a GPU; never fewer than are
    verified), in passes of at most `micro_batch_tokens` (default: the same) through the graph. `threads` serve single
    tokens and `prefill_threads` larger batches; by default all cores but one, and all. With `swa_full` the layers with
    a sliding window keep the keys and values of all tokens, so that the cache can be rolled back anywhere; without it,
    of the window only. `verified_tokens` is how many tokens of a batch may be followed by a choice of the next one.

    `flash_attention` is by default off on a CPU, where it is slower and its sums depend on how a prompt is cut into
    batches. With layers on a GPU it is on where llama.cpp finds that the device has it; so it is where several tokens
    are verified, because without it llama.cpp computes a token in a batch not exactly as one alone (with it, with Q4_0
    and Q8_0 weights on a CPU, to the bit).
    """

    context_tokens: int | None = None
    batch_tokens: int | None = None
    micro_batch_tokens: int | None = None
    threads: int | None = None
    prefill_threads: int | None = None
    flash_attention: bool | None = None
    swa_full: bool = True
    verified_tokens: int = 1


class Context:
    """An open context. Raises TurnscopeError for settings that the model cannot have."""

    def __init__(self, model: GgufModel, settings: ContextSettings) -> None:
        self.model = model
        self.tokens = _context_tokens(model, settings.context_tokens)
        batch_tokens = settings.batch_tokens or (BATCH_TOKENS_ON_GPU if model.gpu_layers else BATCH_TOKENS_ON_CPU)
        self.batch_tokens = max(batch_tokens, settings.verified_tokens)  # what is verified is evaluated at once
        # What must lie in the cache before a position for its evaluation to be right: a window, or everything.
        self.window_tokens = 0 if settings.swa_full else model.sliding_window_tokens
        self.handle = opened(model, self.parameters(settings))
        self._free = weakref.finalize(self, lib.llama_free, self.handle)
        memory = lib.llama_get_memory(self.handle)
        if memory is None:
            raise model.not_causal()
        self.memory = memory

    def parameters(self, settings: ContextSettings) -> lib.llama_context_params:
        params = lib.llama_context_default_params()
        params.n_ctx = self.tokens
        params.n_batch = self.batch_tokens
        params.n_ubatch = min(settings.micro_batch_tokens or self.batch_tokens, self.batch_tokens)
        # Memory for a whole batch's logits is reserved otherwise.
        params.n_outputs_max = settings.verified_tokens
        params.n_threads = settings.threads or max(1, usable_cores() - 1)
        params.n_threads_batch = settings.prefill_threads or usable_cores()
        params.swa_full = settings.swa_full
        if self.model.gpu_layers == 0:
            params.offload_kqv = params.op_offload = False  # nor does a GPU take the cache or single large operations
        params.flash_attn_type = _flash_attention(self.model, settings)
        if self.model.recurrent:
            params.n_rs_seq = settings.verified_tokens - 1  # states kept, so that drafted tokens can be taken back
        params.no_perf = True
        return params

    def close(self) -> None:
        self._free()


def opened(model: GgufModel, params: lib.llama_context_params) -> lib.llama_context_p:
    """A context of llama.cpp, which the caller frees."""
    context = lib.llama_init_from_model(model.handle, params)
    if not context:
        raise TurnscopeError(
            f"llama.cpp cannot open a context of {params.n_ctx} tokens for {model.path} ({last_error()}): choose a "
            "smaller context."
        )
    return context


def _context_tokens(model: GgufModel, wanted: int | None) -> int:
    if wanted is None:
        return min(DEFAULT_CONTEXT_TOKENS, model.trained_context_tokens)
    if not 0 < wanted <= model.trained_context_tokens:
        raise TurnscopeError(
            f"A context of {wanted} tokens is not possible with {model.path}: choose from 1 to "
            f"{model.trained_context_tokens}, the length that the model was trained for."
        )
    return wanted


def _flash_attention(model: GgufModel, settings: ContextSettings) -> int:
    if settings.flash_attention is not None:
        return lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if settings.flash_attention else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    helps = model.gpu_layers != 0 or settings.verified_tokens > 1
    return lib.LLAMA_FLASH_ATTN_TYPE_AUTO if helps else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
