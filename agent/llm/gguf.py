"""A GGUF file opened by llama.cpp: the weights and the vocabulary. Everything here is a plain call; the context with
its KV cache, the sampler and the conversation are in the files beside it."""

import ctypes
import functools
import os
import weakref
from collections import deque
from pathlib import Path
from typing import Any, cast

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.bytes_read import BytesRead
from agent.llm.gguf_header import GgufHeader

MAGIC = b"GGUF"
ALL_LAYERS = -1

_DRAFTERS = ("dflash", "eagle3")  # architectures that take another model's layers as input

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


def offloads() -> bool:
    """Whether llama.cpp was built for a GPU and finds one."""
    _initialise()
    return bool(lib.llama_supports_gpu_offload())


def last_error() -> str:
    """Why llama.cpp failed: its first error line since the last call (later ones repeat it), function name removed."""
    line = _errors[0] if _errors else "no reason given"
    _errors.clear()
    return line.split(": ", 1)[-1].removeprefix("error loading model: ").rstrip(".")


def usable_cores() -> int:
    """The CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class GgufModel:
    """The weights and the vocabulary of a causal language model.

    `gpu_layers` of its layers go to a GPU: None is all where llama.cpp finds a GPU and none elsewhere, -1 all;
    `main_gpu` is the number of the only one to use (default: llama.cpp shares the layers among all there are). With
    `multi_token_heads` the file's own are loaded too. `weights_bytes` and `parameters` sum over the file's tensors;
    `reads` tells what of them one token reads. `end_tokens` are those by which the model ends what it writes; `bos` and
    `eos` are -1 where it has none. Raises TurnscopeError for a file that is missing, damaged or no causal language
    model, and for a GPU that is not there.
    """

    def __init__(
        self,
        path: Path,
        *,
        gpu_layers: int | None = None,
        main_gpu: int | None = None,
        multi_token_heads: bool = False,
    ) -> None:
        require_gguf(path)
        _initialise()
        _errors.clear()
        self.path = path
        self.gpu_layers = _possible_gpu_layers(gpu_layers)
        self.handle = self._load(main_gpu, multi_token_heads)
        self._free = weakref.finalize(self, lib.llama_model_free, self.handle)
        self._require_causal()
        self.vocab = cast(lib.llama_vocab_p, lib.llama_model_get_vocab(self.handle))
        self._require_bytes()
        self.header = GgufHeader(path)
        self._require_whole_model(multi_token_heads)
        self.trained_context_tokens = int(lib.llama_model_n_ctx_train(self.handle))
        self.recurrent = bool(lib.llama_model_is_recurrent(self.handle) or lib.llama_model_is_hybrid(self.handle))
        self.sliding_window_tokens = int(lib.llama_model_n_swa(self.handle))
        self.reads = BytesRead.of_model(self.header, recurrent=self.recurrent)
        self.vocab_tokens = int(lib.llama_vocab_n_tokens(self.vocab))
        self.weights_bytes = int(lib.llama_model_size(self.handle))
        self.parameters = int(lib.llama_model_n_params(self.handle))
        self.bos = int(lib.llama_vocab_bos(self.vocab))
        self.eos = int(lib.llama_vocab_eos(self.vocab))
        self.end_tokens = frozenset(t for t in range(self.vocab_tokens) if lib.llama_vocab_is_eog(self.vocab, t))
        self.adds_bos = bool(lib.llama_vocab_get_add_bos(self.vocab)) and self.bos >= 0

    def _load(self, main_gpu: int | None, multi_token_heads: bool) -> lib.llama_model_p:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = self.gpu_layers
        if main_gpu is not None:
            params.main_gpu, params.split_mode = main_gpu, lib.LLAMA_SPLIT_MODE_NONE
        params.load_mtp = multi_token_heads
        model = lib.llama_model_load_from_file(os.fsencode(self.path), params)
        if not model:
            raise TurnscopeError(
                f"llama.cpp cannot load {self.path} ({last_error()}): the file is damaged, incomplete or no language "
                "model; fetch it again or give another GGUF file."
            )
        return model

    def _require_causal(self) -> None:
        encodes = lib.llama_model_has_encoder(self.handle) or not lib.llama_model_has_decoder(self.handle)
        causal = self.metadata(f"{self.metadata('general.architecture')}.attention.causal") != "false"
        if encodes or not causal or lib.llama_model_is_diffusion(self.handle):
            raise self.not_causal()

    def _require_whole_model(self, multi_token_heads: bool) -> None:
        heads = self.header.has_only_heads and not multi_token_heads
        if heads or self.header.architecture in _DRAFTERS:
            raise TurnscopeError(
                f"{self.path} (architecture {self.header.architecture}) only drafts for another model and cannot write "
                "by itself: give the GGUF file of a whole model."
            )

    def not_causal(self) -> TurnscopeError:
        architecture = self.metadata("general.architecture")
        return TurnscopeError(
            f"{self.path} (architecture {architecture}) does not write text from left to right: give the GGUF file "
            "of a causal language model."
        )

    def _require_bytes(self) -> None:
        """A SentencePiece vocabulary spells what it has no token for in bytes; without them llama.cpp aborts."""
        if lib.llama_vocab_type(self.vocab) != lib.LLAMA_VOCAB_TYPE_SPM:
            return
        texts = {lib.llama_vocab_get_text(self.vocab, t) for t in range(lib.llama_vocab_n_tokens(self.vocab))}
        if any(b"<0x%02X>" % byte not in texts and bytes([byte]) not in texts for byte in range(256)):
            raise TurnscopeError(
                f"The vocabulary of {self.path} lacks tokens for single bytes, so that it cannot spell every text: "
                "give another GGUF file."
            )

    def metadata(self, key: str) -> str | None:
        """A value of the file's header as text; None when it is not there."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = lib.llama_model_meta_val_str(self.handle, key.encode(), cast(Any, buffer), size)
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
        if count < 0:  # a space that becomes "▁" may take three tokens, one for each of its bytes
            room = -count
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

    def suppressed_tokens(self) -> list[int]:
        """Tokens that the file forbids its model to write."""
        count = ctypes.c_int32()
        tokens = lib.llama_vocab_get_suppress_tokens(self.vocab, ctypes.pointer(count))
        return tokens[: count.value] if tokens else []

    def close(self) -> None:
        """Free the weights; contexts first. Nothing else may be called afterwards."""
        self._free()


def require_gguf(path: Path) -> None:
    """Raise TurnscopeError when a path is not that of a GGUF file, before llama.cpp says it less clearly."""
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


def _possible_gpu_layers(wanted: int | None) -> int:
    if wanted is None:
        return ALL_LAYERS if offloads() else 0
    if wanted != 0 and not offloads():
        raise TurnscopeError(
            "Layers of the language model cannot go to a GPU, because llama.cpp was built without GPU support or finds "
            "no GPU: set gpu_layers to 0, or install a build for your GPU."
        )
    return max(wanted, ALL_LAYERS)
