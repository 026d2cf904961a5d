"""Which tokens are in llama.cpp's KV cache: evaluation that can be cut short, and the reuse of a common beginning."""

import ctypes
import weakref
from collections.abc import Callable, Sequence

import llama_cpp as lib

from agent.errors import TurnscopeError
from agent.llm.context import Context
from agent.llm.gguf import last_error

_ABORTED = 2  # what llama_decode returns when its abort callback said so
_NO_CALLBACK, _NO_DATA = lib.ggml_abort_callback(), ctypes.c_void_p()

Evaluated = Callable[[int, Sequence[int]], None]


class KvCache:
    """`tokens` are those whose keys and values llama.cpp holds, in order from position 0. Nothing else may write to
    the context. `evaluated`, where given, is called with the first position and the tokens of every evaluated batch.
    """

    def __init__(self, context: Context, evaluated: Evaluated | None = None) -> None:
        self._context = context
        self._evaluated = evaluated
        self._batch = lib.llama_batch_init(context.batch_tokens, 0, 1)
        self._free = weakref.finalize(self, lib.llama_batch_free, self._batch)
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
        """Keep the first `count` tokens. All are dropped where the model's memory cannot roll back (recurrent models),
        or where a sliding window's keys and values before that position are gone: without them what is evaluated
        next would be wrong, and llama.cpp does not say so."""
        if count >= len(self.tokens):
            return
        memory = self._context.memory
        if self._is_gone(count) or not lib.llama_memory_seq_rm(memory, 0, count, -1):
            lib.llama_memory_clear(memory, False)
        self._resynchronise(self.tokens)

    def _is_gone(self, count: int) -> bool:
        """Whether a token at position `count` would attend to something that a short sliding-window cache dropped."""
        window = self._context.window_tokens
        if not window or count == 0:
            return False
        return lib.llama_memory_seq_pos_min(self._context.memory, 0) > max(0, count - window + 1)

    def evaluate(self, tokens: Sequence[int], should_stop: Callable[[], bool], *, verify: bool = False) -> bool:
        """Append tokens; the last one's logits are ready afterwards, with `verify` those of all, which must fit a
        batch. False when `should_stop` turned true before the end.

        A batch of several tokens is aborted in its midst (on the CPU; between batches elsewhere) and leaves nothing
        in the cache.
        """
        size = self._context.batch_tokens
        for first in range(0, len(tokens), size):
            batch = tokens[first : first + size]
            if len(tokens) > 1 and should_stop():
                return False
            if not self._decode(batch, should_stop, verify=verify):
                return False
        lib.llama_synchronize(self._context.handle)
        return True

    def _decode(self, tokens: Sequence[int], should_stop: Callable[[], bool], *, verify: bool) -> bool:
        start = len(self.tokens)
        self._fill(start, tokens, verify=verify)
        with _Abort(self._context, should_stop if len(tokens) > 1 else None) as abort:
            status = lib.llama_decode(self._context.handle, self._batch)
        self._resynchronise([*self.tokens, *tokens])
        if status != 0:
            self.roll_back(start)  # passes through the graph that were complete
        if abort.error is not None:
            raise abort.error
        if status not in (0, _ABORTED):
            raise TurnscopeError(
                f"llama.cpp failed to evaluate {len(tokens)} tokens (status {status}: {last_error()})."
            )
        if status == 0 and self._evaluated is not None:
            self._evaluated(start, tokens)
        return status == 0

    def _fill(self, start: int, tokens: Sequence[int], *, verify: bool) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens):
            batch.token[at], batch.pos[at] = token, start + at
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
            batch.logits[at] = verify or at == len(tokens) - 1

    def _resynchronise(self, tokens: list[int]) -> None:
        """Of `tokens`, those are in the cache that llama.cpp says it holds."""
        self.tokens = tokens[: lib.llama_memory_seq_pos_max(self._context.memory, 0) + 1]

    def spelling(self, start: int, text: bytes) -> list[int] | None:
        """The cached tokens from `start` that spell exactly `text`; None when they do not.

        A reply is kept as the model spelled it, which the tokeniser might do otherwise.
        """
        spelled, end = b"", start
        while len(spelled) < len(text) and end < len(self.tokens):
            spelled += self._context.model.piece(self.tokens[end])
            end += 1
        return self.tokens[start:end] if spelled == text else None


class _Abort:
    """Lets llama.cpp ask `should_stop` (if any) between the nodes of the graph for as long as the block lasts.

    An exception in `should_stop` cannot pass through C: it stops the evaluation and waits in `error`.
    """

    def __init__(self, context: Context, should_stop: Callable[[], bool] | None) -> None:
        self.error: BaseException | None = None
        self._context = context
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
            lib.llama_set_abort_callback(self._context.handle, self._callback, _NO_DATA)
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._should_stop is not None:
            lib.llama_set_abort_callback(self._context.handle, _NO_CALLBACK, _NO_DATA)
