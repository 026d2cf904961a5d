"""A GGUF file opened by llama.cpp: the weights, the vocabulary and one context. Everything here is a plain call; the KV
cache, the sampler and the conversation are in the files beside it."""

import ctypes
import functools
import os
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import llama_cpp as lib

from agent.errors import TurnscopeError

MAGIC = b"GGUF"
DEFAULT_CONTEXT_TOKENS = 2048
BATCH_TOKENS_ON_CPU, BATCH_TOKENS_ON_GPU = 128, 512  # beyond, larger prefill batches gain nothing and cost memory

_LOG_LEVEL_ERROR = 4  # ggml's enumeration: debug 1, info 2, warn 3, error 4
_errors: deque[str] = deque(maxlen=4)


@lib.llama_log_callback
def _keep_errors(level: int, text: bytes, _user: object) -> None:
    if level == _LOG_LEVEL_ERROR:
        _errors.append(text.decode("utf-8", errors="replace").strip())


@functools.cache
def _initialise() -> None:
    """Start llama.cpp's backends once, and keep its log off the terminal: error lines are kept for our sentences."""
    lib.llama_log_set(_keep_errors, ctypes.c_void_p(0))
    lib.llama_backend_init()


def last_error() -> str:
    """Why llama.cpp failed: its first error line since the last call (later ones repeat it), function name removed."""
    line = _errors[0] if _errors else "no reason given"
    _errors.clear()
    return line.split(": ", 1)[-1].removeprefix("error loading model: ").rstrip(".")


def usable_cores() -> int:
    """The CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class GgufModel:
    """A causal language model with one context of one sequence.

    `weights_bytes` and `parameters` sum over the file's tensors; `context_tokens` is the size of the KV cache (default:
    2048 or what the model was trained for, whichever is less). `threads` serve single-token evaluation and
    `prefill_threads` larger batches; by default all cores but one, and all. Raises TurnscopeError for a file that is
    missing, damaged or no causal language model, and for settings that it cannot have. `end_tokens` are those by which
    the model ends what it writes; `bos` and `eos` are -1 where it has none.
    """

    def __init__(
        self,
        path: Path,
        *,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        threads: int | None = None,
        prefill_threads: int | None = None,
        gpu_layers: int = 0,
    ) -> None:
        _require_gguf(path)
        _initialise()
        _errors.clear()
        self.path = path
        self._frees: list[Callable[[], object]] = []
        self._model = self._load(gpu_layers)
        self._require_causal()
        self.trained_context_tokens = int(lib.llama_model_n_ctx_train(self._model))
        self.context_tokens = self._checked_context(context_tokens)
        self.batch_tokens = batch_tokens or (BATCH_TOKENS_ON_GPU if gpu_layers else BATCH_TOKENS_ON_CPU)
        self.context = self._open_context(threads, prefill_threads, on_cpu=gpu_layers == 0)
        memory = lib.llama_get_memory(self.context)
        if memory is None:
            raise self._not_causal()
        self.memory = memory
        self.vocab = cast(lib.llama_vocab_p, lib.llama_model_get_vocab(self._model))
        self.vocab_tokens = int(lib.llama_vocab_n_tokens(self.vocab))
        self.weights_bytes = int(lib.llama_model_size(self._model))
        self.parameters = int(lib.llama_model_n_params(self._model))
        self.bos = int(lib.llama_vocab_bos(self.vocab))
        self.eos = int(lib.llama_vocab_eos(self.vocab))
        self.end_tokens = frozenset(t for t in range(self.vocab_tokens) if lib.llama_vocab_is_eog(self.vocab, t))
        self.adds_bos = bool(lib.llama_vocab_get_add_bos(self.vocab)) and self.bos >= 0

    def _load(self, gpu_layers: int) -> lib.llama_model_p:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        model = lib.llama_model_load_from_file(os.fsencode(self.path), params)
        if not model:
            raise TurnscopeError(
                f"llama.cpp cannot load {self.path} ({last_error()}): the file is damaged, incomplete or no language "
                "model; fetch it again or give another GGUF file."
            )
        self._frees.append(weakref.finalize(self, lib.llama_model_free, model))
        return model

    def _checked_context(self, wanted: int | None) -> int:
        if wanted is None:
            return min(DEFAULT_CONTEXT_TOKENS, self.trained_context_tokens)
        if not 0 < wanted <= self.trained_context_tokens:
            raise TurnscopeError(
                f"A context of {wanted} tokens is not possible with {self.path}: choose from 1 to "
                f"{self.trained_context_tokens}, the length that the model was trained for."
            )
        return wanted

    def _open_context(self, threads: int | None, prefill_threads: int | None, *, on_cpu: bool) -> lib.llama_context_p:
        params = lib.llama_context_default_params()
        params.n_ctx = self.context_tokens
        params.n_batch = params.n_ubatch = self.batch_tokens
        params.n_outputs_max = 1  # only a batch's last logits are read; memory is reserved for all of them otherwise
        params.n_threads = threads or max(1, usable_cores() - 1)
        params.n_threads_batch = prefill_threads or usable_cores()
        params.swa_full = True  # with a short sliding-window cache, rolling back past the window is silently wrong
        if on_cpu:  # slower there, and its sums depend on how a prompt is cut into batches
            params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        context = lib.llama_init_from_model(self._model, params)
        if not context:
            raise TurnscopeError(
                f"llama.cpp cannot open a context of {self.context_tokens} tokens for {self.path} ({last_error()}): "
                "choose a smaller context."
            )
        self._frees.insert(0, weakref.finalize(self, lib.llama_free, context))
        return context

    def _require_causal(self) -> None:
        encodes = lib.llama_model_has_encoder(self._model) or not lib.llama_model_has_decoder(self._model)
        causal = self.metadata(f"{self.metadata('general.architecture')}.attention.causal") != "false"
        if encodes or not causal or lib.llama_model_is_diffusion(self._model):
            raise self._not_causal()

    def _not_causal(self) -> TurnscopeError:
        architecture = self.metadata("general.architecture")
        return TurnscopeError(
            f"{self.path} (architecture {architecture}) does not write text from left to right: give the GGUF file "
            "of a causal language model."
        )

    def metadata(self, key: str) -> str | None:
        """A value of the file's header as text; None when it is not there."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = lib.llama_model_meta_val_str(self._model, key.encode(), cast(Any, buffer), size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", errors="replace")
            size = length + 1

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token numbers of a text, without a beginning-of-sequence token. `special` lets a tag like <|im_end|> become
        its token."""
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 8
        tokens = (lib.llama_token * room)()
        count = lib.llama_tokenize(self.vocab, data, len(data), tokens, room, False, special)
        if count < 0:
            raise TurnscopeError(
                f"llama.cpp cannot tokenise a text of {len(data)} bytes with {self.path}: {last_error()}."
            )
        return tokens[:count]

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """A token's bytes, which may be part of a character; none for a control token unless `special`."""
        buffer = ctypes.create_string_buffer(256)
        length = lib.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, special)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = lib.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[:length]

    def token_text(self, token: int) -> str:
        """A token as a chat template writes it (<|im_end|>); empty for -1, the number of one that the model lacks."""
        return self.piece(token, special=True).decode("utf-8", errors="replace") if token >= 0 else ""

    def close(self) -> None:
        """Free the context and the weights. Nothing else may be called afterwards."""
        for free in self._frees:
            free()


def _require_gguf(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise TurnscopeError(f"The language model {path} is not a file: give the path of a GGUF file.")
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise TurnscopeError(
            f"The language model {path} cannot be read ({error.strerror}): give the path of a GGUF file."
        ) from error
    if magic != MAGIC:
        raise TurnscopeError(f"{path} is not a GGUF file: give the path of a language model in GGUF format.")
