"""Nemotron's streaming recogniser: a cache-aware FastConformer transducer, through NeMo's own streaming step.

The encoder puts each frame of 80 ms through its layers once; what later frames attend to stays in a cache. A chunk is
`R + 1` frames, of which the first looks `R` frames ahead, to the chunk's end. A stream keeps the samples of an
incomplete chunk, the last feature frames (each encoder frame is a convolution over 15 of them), the cache and the
transducer's state, so the cost of a chunk does not depend on what came before it, and the transcript is that of the
whole sound at once.

Source of the architecture: Noroozi et al., "Stateful Conformer with Cache-based Inference for Streaming ASR" (2024).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from agent.asr.nemo_library import EncDecRNNTBPEModel
from agent.asr.nemotron_buffered import BufferedDecoder
from agent.asr.nemotron_checkpoint import load
from agent.asr.nemotron_choices import FRAME_MS, right_context
from agent.asr.nemotron_features import FeatureStream, samples_of
from agent.asr.nemotron_model import ChunkDecoder, Heard, NemotronModel, new_tokens
from agent.asr.nemotron_text import GrowingText
from agent.asr.protocol import ShouldStop, Transcript
from agent.device_times import Moments, moments
from agent.pytorch import use_threads
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute

Mode = Literal["cache-aware", "buffered"]
_PARTS = ("features", "encoder", "decoder")


class NemotronEngine:
    """An `AsrEngine`. Its streams share the model and may be interleaved; one step at a time per model.

    Engines of other chunk sizes and languages may share the model, too.
    """

    needs_whole_chunks = True

    def __init__(
        self,
        source: Path | EncDecRNNTBPEModel,
        *,
        clock: Clock,
        name: str | None = None,
        chunk_ms: int = 320,
        language: str = "en-US",
        device: str = "cpu",
        threads: int | None = None,
        mode: Mode = "cache-aware",
    ) -> None:
        """`source` is a .nemo file, loaded onto `device` (cpu, cuda, cuda:N), or a model that stays where it is.

        `chunk_ms` is 80, 160, 320, 560 or 1120; `language` a key of the model's prompt dictionary (en-US), or a bare
        language (en); `threads` those of a CPU, of whichever thread a step runs on. `buffered` is the mode without the
        cache, for comparison. Raises TurnscopeError for what the file, the model or the device cannot do.
        """
        right_context(chunk_ms)
        library = load(source, device) if isinstance(source, Path) else source
        default_name = source.stem if isinstance(source, Path) else type(library).__name__
        self.model = name or default_name
        self._model = NemotronModel(library, name=self.model, chunk_ms=chunk_ms, language=language)
        self._decoder = CacheAwareDecoder if mode == "cache-aware" else BufferedDecoder
        self._clock = clock
        self._threads = threads
        self.chunks_ms = self._model.chunks_ms
        self.attributes: Mapping[str, Attribute] = {
            v.ASR_CHUNK_S: chunk_ms / 1000,
            v.ASR_RIGHT_CONTEXT: self._model.context[1],
            v.ASR_MODE: mode,
            v.ASR_LANGUAGE: self._model.language,
        }

    def with_chunk(self, chunk_ms: int) -> "NemotronEngine":
        other = copy(self)
        other._model = self._model.with_chunk(chunk_ms)
        changed = {v.ASR_CHUNK_S: chunk_ms / 1000, v.ASR_RIGHT_CONTEXT: other._model.context[1]}
        other.attributes = {**self.attributes, **changed}
        return other

    def chunk_end(self, sample: int) -> int:
        model = self._model
        first = samples_of(model.first_frames, model.hop, model.reach)
        later = model.later_frames * model.hop
        return first + max(0, -(-(sample - first) // later)) * later

    def open(self) -> "NemotronStream":
        return NemotronStream(self._model, self._decoder(self._model), self.chunk_end, self._clock, self._threads)

    def warm_up(self) -> None:
        """Four chunks of noise: the first, those with less and with all of their look-back, and a flushed one."""
        three_chunks = self.chunk_end(self.chunk_end(self.chunk_end(1) + 1) + 1)
        stream = self.open()
        stream.step(np.random.default_rng(0).normal(0, 0.1, three_chunks).astype(np.float32), lambda: False)
        stream.finalize(np.zeros(1, np.float32), lambda: False)


class NemotronStream:
    """An `AsrStream`. A step hears every chunk that is complete; nothing is computed of an incomplete one.

    In a transcript, `tokens` are those that the step's chunks gave (the prediction network is evaluated once per chunk
    and at most once more for each, the joint network at most once for each and once per frame); features, encoder (with
    the language prompt) and decoder are the parts of a pass. A step that is stopped has taken its samples; the next one
    goes on exactly. One that fails leaves a hole in what was heard, so every later one raises its error again.
    """

    def __init__(
        self,
        model: NemotronModel,
        decoder: ChunkDecoder,
        chunk_end: Callable[[int], int],
        clock: Clock,
        threads: int | None,
    ) -> None:
        self._model = model
        self._decoder = decoder
        self._chunk_end = chunk_end
        self._clock = clock
        self._threads = threads
        self._features = FeatureStream(model.library.preprocessor, model.device)
        self._text = GrowingText(model.library.decoding)
        self._failure: Exception | None = None

    def step(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        if self._failure is not None:
            raise self._failure
        try:
            return self._hear(samples, should_stop)
        except Exception as error:
            self._failure = error
            raise

    def _hear(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        start_ns = self._clock.now_ns()
        self._features.push(samples)
        heard: list[Heard] = []
        marks: list[Any] = []
        with _computing(self._model, self._threads):
            times = moments(self._model.device, self._clock)
            while self._features.has(self._next_frames) and not should_stop():
                heard.append(self._hear_chunk(times, marks))
            passes = _by_pass(times.resolve(marks))
        return Transcript(
            str(self._text),
            start_ns,
            self._clock.now_ns(),
            encoded_s=sum(chunk.frames for chunk in heard) * FRAME_MS / 1000,
            tokens=sum(len(chunk.tokens) for chunk in heard),
            passes_ns=tuple((bounds[0], bounds[-1]) for bounds in passes),
            parts_ns=_by_part(passes),
        )

    def finalize(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        """See the protocol. At most a chunk of silence is heard, and none where a chunk has just ended."""
        taken = self._features.end + len(samples)
        missing = self._chunk_end(taken) - taken if taken else 0
        return self.step(np.pad(samples, (0, missing)), should_stop)

    @property
    def _next_frames(self) -> int:
        return self._model.later_frames if self._features.frames else self._model.first_frames

    def _hear_chunk(self, times: Moments, marks: list[Any]) -> Heard:
        """One pass; appends the moments at which it began, had its features, had encoded and had decoded."""

        def mark() -> None:
            marks.append(times.mark())

        mark()
        features = self._features.take(self._next_frames)
        mark()
        heard = self._decoder.hear(features, mark)
        self._text.add(heard.tokens)
        mark()
        return heard


class CacheAwareDecoder:
    """A `ChunkDecoder` that is the library's own streaming step."""

    def __init__(self, model: NemotronModel) -> None:
        self._model = model
        self._recent: torch.Tensor | None = None
        self._cache: tuple[torch.Tensor, ...] | None = None
        self._hypotheses: list[Any] | None = None

    def hear(self, features: torch.Tensor, encoded: Callable[[], None]) -> Heard:
        """The feature frames before the chunk are encoded again, since convolutions reach back to them; the frames that
        come of them were those of the chunk before and are dropped: one for every eight begun."""
        encoder = self._model.library.encoder
        cache = encoder.get_initial_cache_state(batch_size=1) if self._cache is None else self._cache
        looked_back = 0 if self._recent is None else self._recent.shape[-1]
        chunk = features if self._recent is None else torch.cat([self._recent, features], dim=-1)
        with _calling(encoded, after=self._last_of_encoder()):
            _, _, *next_cache, hypotheses = self._model.library.conformer_stream_step(
                processed_signal=chunk,
                processed_signal_length=torch.tensor([chunk.shape[-1]], device=chunk.device),
                cache_last_channel=cache[0],
                cache_last_time=cache[1],
                cache_last_channel_len=cache[2],
                keep_all_outputs=False,
                previous_hypotheses=self._hypotheses,
                previous_pred_out=None,
                drop_extra_pre_encoded=-(-looked_back // self._model.subsampling),
                return_transcription=True,
            )
        self._cache, self._hypotheses = tuple(next_cache), hypotheses
        self._recent = chunk[:, :, -encoder.streaming_cfg.pre_encode_cache_size[1] :]
        return Heard(new_tokens(hypotheses[0]), self._model.context[1] + 1)

    def _last_of_encoder(self) -> torch.nn.Module:
        library = self._model.library
        return library.prompt_kernel if hasattr(library, "prompt_kernel") else library.encoder


@contextmanager
def _computing(model: NemotronModel, threads: int | None) -> Iterator[None]:
    """Around everything that computes: the engine's own threads, context and language, and no gradients."""
    use_threads(threads)
    with torch.inference_mode():
        model.take()
        yield


@contextmanager
def _calling(act: Callable[[], None], *, after: torch.nn.Module) -> Iterator[None]:
    hook = after.register_forward_hook(lambda *_: act())
    try:
        yield
    finally:
        hook.remove()


def _by_pass(marks_ns: list[int]) -> list[list[int]]:
    size = len(_PARTS) + 1
    return [marks_ns[start : start + size] for start in range(0, len(marks_ns), size)]


def _by_part(passes: list[list[int]]) -> dict[str, tuple[int, ...]]:
    """Durations by part, one for each pass, which is given by the bounds of its parts."""
    durations = [[end - start for start, end in pairwise(bounds)] for bounds in passes]
    return {part: tuple(one[number] for one in durations) for number, part in enumerate(_PARTS)}
