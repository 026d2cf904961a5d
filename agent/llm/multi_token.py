"""Drafting by multi-token heads: a layer or a few that go on from the model's own hidden states.

A head takes a token together with the hidden state of the position before it, and gives logits and a next hidden
state, with which it goes on. Heads of one kind (Gemma 4's) attend to the model's own KV cache, and draft every token at
the position of the first; others keep a cache of their own. llama.cpp offers both in a second context on the first; its
calls for hidden states are not in its public header yet, and llama-cpp-python calls its bindings of them experimental.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import llama_cpp as lib
import numpy as np
from llama_cpp import llama_cpp_ext as ext
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.llm.bytes_read import BytesRead
from agent.llm.context import Context, ContextSettings, opened
from agent.llm.gguf import GgufModel, last_error
from agent.llm.protocol import ShouldStop
from agent.llm.speculative import Draft, require_same_vocabulary

_GEMMA, _GEMMA_HEADS = "gemma4", "gemma4-assistant"
_WITH_HEADS = (  # the architectures whose heads llama.cpp evaluates; it passes over those of others
    _GEMMA_HEADS,
    "bailingmoe3",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "deepseek4",
    "glm-dsa",
    "glm4moe",
    "hy_v3",
    "mimo2",
    "nemotron_h_moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
)
_OF_ALL_TOKENS, _OF_OUTPUTS = False, True  # whose hidden states of a batch are kept


class MultiTokenHead:
    """The head or heads in `model`, which is the target's own file or one that holds nothing else. Takes the likeliest
    tokens; of several heads with caches of their own, the first drafts all tokens.

    `_hidden` are the target's hidden states by position, float32 (context_tokens, width); from that of position p and
    the token at p + 1 the one after is drafted. Raises TurnscopeError for a file without heads or of another model.
    """

    def __init__(self, model: GgufModel, target: Context, settings: ContextSettings) -> None:
        self._model, self._target = model, target
        self._width = int(lib.llama_model_n_embd_out(model.handle))
        architecture = model.header.architecture
        if not lib.llama_model_n_layer_nextn(model.handle) or architecture not in _WITH_HEADS:
            raise TurnscopeError(
                f"{model.path} (architecture {architecture}) has no multi-token head that could draft: give the GGUF "
                "file of a smaller model of the same family."
            )
        require_same_vocabulary(model, target.model)
        made_for = _GEMMA if architecture == _GEMMA_HEADS else architecture
        fits = self._width == lib.llama_model_n_embd_out(target.model.handle)
        if not fits or made_for != target.model.header.architecture:
            raise TurnscopeError(
                f"The multi-token heads of {model.path} do not fit {target.model.path}: give those made for this model."
            )
        params = target.parameters(settings)
        params.ctx_type, params.ctx_other = lib.LLAMA_CONTEXT_TYPE_MTP, target.handle
        params.n_outputs_max, params.n_rs_seq = 1, 0
        self._handle = opened(model, params)
        self._free = weakref.finalize(self, lib.llama_free, self._handle)
        self._memory: Any = lib.llama_get_memory(self._handle)
        self._shares_cache = ext.llama_get_ctx_other(self._handle) == target.handle
        ext.llama_set_embeddings_nextn(target.handle, True, _OF_ALL_TOKENS)
        ext.llama_set_embeddings_nextn(self._handle, True, _OF_OUTPUTS)
        self._batch: Any = lib.llama_batch_ext_init(self._handle)
        self._free_batch = weakref.finalize(self, lib.llama_batch_ext_free, self._batch)
        self._hidden = np.zeros((target.tokens + 1, self._width), np.float32)  # the last row serves position -1
        self._reads = BytesRead.of_heads(model.header)
        self._catching_up = Draft([])  # what was read for it since the last draft

    def prefill(self, tokens: Sequence[int], should_stop: ShouldStop) -> None:
        """The hidden states came with the evaluation; what that read is no token's."""
        self._catching_up = Draft([])

    def evaluated(self, start: int, tokens: Sequence[int]) -> None:
        rows = ext.llama_get_embeddings_nextn(self._target.handle)
        self._hidden[start : start + len(tokens)] = np.ctypeslib.as_array(rows, (len(tokens), self._width))
        if not self._shares_cache:
            positions = range(start, start + len(tokens))
            lib.llama_memory_seq_rm(self._memory, 0, start, -1)
            self._run(tokens, positions, self._hidden[[at - 1 for at in positions]], output=False)
            self._catching_up.add_read(self._reads, len(tokens), positions.stop)

    def draft(self, tokens: Sequence[int], count: int, should_stop: ShouldStop) -> Draft:
        draft, self._catching_up = self._catching_up, Draft([])
        first, token = len(tokens) - 1, tokens[-1]
        hidden = self._hidden[first - 1]
        if not self._shares_cache:
            lib.llama_memory_seq_rm(self._memory, 0, first, -1)
        while len(draft.tokens) < count and not should_stop():
            position = first if self._shares_cache else first + len(draft.tokens)
            self._run([token], [position], hidden[None], output=True)
            draft.add_read(self._reads, 1, position + 1)
            logits = lib.llama_get_logits_ith(self._handle, 0)
            token = int(np.ctypeslib.as_array(logits, (self._model.vocab_tokens,)).argmax())
            if token in self._target.model.end_tokens:
                break
            draft.tokens.append(token)
            hidden = np.ctypeslib.as_array(ext.llama_get_embeddings_nextn_ith(self._handle, 0), (self._width,)).copy()
        return draft

    def _run(
        self, tokens: Sequence[int], positions: Sequence[int], hidden: NDArray[np.float32], *, output: bool
    ) -> None:
        """Evaluate tokens with their hidden states, float32 (n, width); with `output` the last one's logits are ready
        afterwards."""
        lib.llama_batch_ext_clear(self._batch)
        for token, position, row in zip(tokens, positions, hidden, strict=True):
            at = lib.llama_batch_ext_add_token(self._batch, 0, token)
            lib.llama_batch_ext_set_pos(self._batch, at, ctypes.pointer(lib.llama_pos(position)))
            state = lib.llama_embd(row.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), 1, self._width)
            lib.llama_batch_ext_set_embd_token(self._batch, at, state)
        lib.llama_batch_ext_set_output_logits(self._batch, len(tokens) - 1, output)
        status = lib.llama_process(self._handle, lib.LLAMA_PROCESS_TYPE_DECODE, self._batch)
        if status != 0:
            raise TurnscopeError(
                f"llama.cpp failed to draft with {self._model.path} (status {status}: {last_error()}): go without."
            )

    def close(self) -> None:
        self._free_batch()
        self._free()
        if self._model is not self._target.model:
            self._model.close()
