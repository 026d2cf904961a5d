"""What the tests of Nemotron's engine share: a tiny model, ways to run it, and a look at what goes through it."""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_checkpoint import load
from agent.asr.protocol import AsrEngine, Transcript
from profiling.trace.clock import SystemClock
from tests.fakes.ticking import never
from tests.tiny_models.nemotron import write_nemotron

Samples = NDArray[np.float32]
NOTHING = np.zeros(0, np.float32)
RATE_HZ = 16_000


@cache
def tiny_file() -> Path:
    """The tiny model's file, written once and removed when the tests end."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return write_nemotron(Path(folder.name) / "tiny.nemo")


@cache
def tiny_library() -> Any:
    """The library's model in that file, loaded once."""
    return load(tiny_file(), "cpu")


def tiny_engine(chunk_ms: int = 320, **settings: Any) -> NemotronEngine:
    return NemotronEngine(tiny_library(), clock=SystemClock(), threads=1, chunk_ms=chunk_ms, **settings)


def stream(engine: AsrEngine, samples: Samples, size: int = 320) -> list[Transcript]:
    """A step per packet, and a finalize without samples."""
    opened = engine.open()
    steps = [opened.step(samples[start : start + size], never) for start in range(0, len(samples), size)]
    return [*steps, opened.finalize(NOTHING, never)]


@dataclass
class Seen:
    """What went through the library's model in each pass: feature frames, encoder frames, tokens that were decoded; and
    how many tokens were looked up in each call of the tokenizer."""

    features: list[int] = field(default_factory=list)
    encoded: list[torch.Tensor] = field(default_factory=list)
    decoded: list[list[int]] = field(default_factory=list)
    looked_up: list[int] = field(default_factory=list)

    @property
    def frames(self) -> torch.Tensor:
        return torch.cat(self.encoded, dim=-1)

    @property
    def tokens(self) -> list[int]:
        return [token for tokens in self.decoded for token in tokens]


@contextmanager
def watching(library: Any) -> Iterator[Seen]:
    seen = Seen()
    decoding, tokenizer = library.decoding, library.tokenizer

    def encoded(module: Any, args: Any, kwargs: dict[str, torch.Tensor], output: tuple[torch.Tensor, ...]) -> None:
        seen.features.append(kwargs["audio_signal"].shape[-1])
        seen.encoded.append(output[0])

    def decoded(hypotheses: list[Any]) -> list[Any]:
        seen.decoded.append(hypotheses[0].y_sequence.tolist())
        return type(decoding).decode_hypothesis(decoding, hypotheses)

    def looked_up(ids: list[int]) -> list[str]:
        seen.looked_up.append(len(ids))
        return type(tokenizer).ids_to_tokens(tokenizer, ids)

    hook = library.encoder.register_forward_hook(encoded, with_kwargs=True)
    decoding.decode_hypothesis, tokenizer.ids_to_tokens = decoded, looked_up
    try:
        yield seen
    finally:
        del decoding.decode_hypothesis, tokenizer.ids_to_tokens
        hook.remove()


@torch.inference_mode()
def offline(library: Any, samples: Samples) -> tuple[torch.Tensor, list[int], str]:
    """Encoder frames, tokens and text of the whole sound, in the context and language that the model has now."""
    signal = torch.from_numpy(samples)[None]
    features, length = library.preprocessor(input_signal=signal, length=torch.tensor([signal.shape[1]]))
    frames, frame_count = library.encoder(audio_signal=features, length=length)
    (hypothesis,) = library.decoding.rnnt_decoder_predictions_tensor(
        library._apply_prompt_to_encoded(frames), frame_count, return_hypotheses=True
    )
    return frames[:, :, :frame_count], hypothesis.y_sequence.tolist(), hypothesis.text
