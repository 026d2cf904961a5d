"""Which tokens are in llama.cpp's KV cache: evaluation that can be cut short, and the reuse of a common beginning."""

import ctypes
from collections.abc import Callable, Sequence

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.gguf import GgufModel, last_error

_ABORTED = 2  # what llama_decode returns when its abort callback said so
_NO_CALLBACK, _NO_DATA = lib.ggml_abort_callback(), ctypes.c_void_p()


class KvCache:
    """`tokens` are those whose keys and values llama.cpp holds, in order from position 0. Nothing else may write to
    the context."""

    def __init__(self, model: GgufModel) -> None:
        self._model = model
        self.tokens: list[int] = []

    def begin(self, prompt: Sequence[int], *, reevaluate_last: bool) -> int:
        """Roll back to the longest common beginning of cache and prompt; return how many of the prompt's tokens are
        there.

        With `reevaluate_last`, at least the last token is left to evaluate: sampling needs its logits.
        """
        count = 0
        for have, want in zip(self.tokens, prompt, strict=False):
            if have != want:
                break
            count += 1
        self.roll_back(min(count, len(prompt) - 1) if reevaluate_last else count)
        return len(self.tokens)

    def roll_back(self, count: int) -> None:
        """Keep the first `count` tokens; all are dropped where the model's memory cannot roll back (recurrent
        models)."""
        if count >= len(self.tokens):
            return
        if not lib.llama_memory_seq_rm(self._model.memory, 0, count, -1):
            lib.llama_memory_clear(self._model.memory, False)
        self._resynchronise(self.tokens)

    def evaluate(self, tokens: Sequence[int], should_stop: Callable[[], bool]) -> bool:
        """Append tokens; the last one's logits are ready afterwards. False when `should_stop` turned true before the
        end.

        A batch of several tokens is aborted in its midst (on the CPU; between batches elsewhere) and leaves nothing
        in the cache.
        """
        size = self._model.batch_tokens
        for first in range(0, len(tokens), size):
            batch = tokens[first : first + size]
            if len(tokens) > 1 and should_stop():
                return False
            if not self._decode(batch, should_stop):
                return False
        lib.llama_synchronize(self._model.context)
        return True

    def _decode(self, batch: Sequence[int], should_stop: Callable[[], bool]) -> bool:
        array = (lib.llama_token * len(batch))(*batch)
        with _Abort(self._model, should_stop if len(batch) > 1 else None) as abort:
            status = lib.llama_decode(self._model.context, lib.llama_batch_get_one(array, len(batch)))
        self._resynchronise([*self.tokens, *batch])
        if abort.error is not None:
            raise abort.error
        if status not in (0, _ABORTED):
            raise TurnscopeError(f"llama.cpp failed to evaluate {len(batch)} tokens (status {status}: {last_error()}).")
        return status == 0

    def _resynchronise(self, tokens: list[int]) -> None:
        """Of `tokens`, those are in the cache that llama.cpp says it holds."""
        self.tokens = tokens[: lib.llama_memory_seq_pos_max(self._model.memory, 0) + 1]

    def spelling(self, start: int, text: bytes) -> list[int] | None:
        """The cached tokens from `start` that spell exactly `text`; None when they do not.

        A reply is kept as the model spelled it, which the tokeniser might do otherwise.
        """
        spelled, end = b"", start
        while len(spelled) < len(text) and end < len(self.tokens):
            spelled += self._model.piece(self.tokens[end])
            end += 1
        return self.tokens[start:end] if spelled == text else None


class _Abort:
    """Lets llama.cpp ask `should_stop` (if any) between the nodes of the graph for as long as the block lasts.

    An exception in `should_stop` cannot pass through C: it stops the evaluation and waits in `error`.
    """

    def __init__(self, model: GgufModel, should_stop: Callable[[], bool] | None) -> None:
        self.error: BaseException | None = None
        self._model = model
        self._should_stop = should_stop
        self._callback = lib.ggml_abort_callback(self._ask)

    def _ask(self, _data: object) -> bool:
        try:
            return self._should_stop is not None and self._should_stop()
        except BaseException as error:
            self.error = error
            return True

    def __enter__(self) -> "_Abort":
        if self._should_stop is not None:
            lib.llama_set_abort_callback(self._model.context, self._callback, _NO_DATA)
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._should_stop is not None:
            lib.llama_set_abort_callback(self._model.context, _NO_CALLBACK, _NO_DATA)
