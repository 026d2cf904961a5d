"""A NeMo model prepared for streaming, and what hearing a chunk with it means."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from agent.asr import nemotron_choices as choices
from agent.asr.nemo_library import (
    AudioToMelSpectrogramPreprocessor,
    ConformerEncoder,
    EncDecRNNTBPEModel,
    quiet,
)
from agent.asr.nemotron_features import hop_and_reach
from agent.errors import TurnscopeError

RATE_HZ = 16_000


@dataclass(frozen=True)
class Heard:
    """What a chunk gave: tokens, and how many frames the encoder computed for them."""

    tokens: list[int]
    frames: int


class ChunkDecoder(Protocol):
    """The state of one stream beyond its features: what encoder and transducer carry from chunk to chunk."""

    def hear(self, features: torch.Tensor, encoded: Callable[[], None]) -> Heard:
        """Encode and decode the next chunk, [1, mel bands, frames]; `encoded` is called between the two."""
        ...


class NemotronModel:
    """The library's model with the attention context and the language that one engine uses.

    Both belong to the library's model, which several engines may share: `take` makes them this engine's.
    """

    def __init__(self, library: EncDecRNNTBPEModel, *, name: str, chunk_ms: int, language: str) -> None:
        """Raises TurnscopeError for a model that cannot stream exactly, or knows no such chunk or language."""
        _require_streaming(library, name)
        self.library: Any = library  # most of its attributes have no types
        self.subsampling: int = self.library.encoder.subsampling_factor
        self.hop, self.reach = hop_and_reach(library.preprocessor)
        self._contexts = [list(context) for context in self.library.encoder.att_context_size_all]
        self._name = name
        self.context = choices.context(self._contexts, chunk_ms, name)
        self._prompts = _prompt_dictionary(library)
        self.language = choices.language(self._prompts, language, name)
        self.device: torch.device = next(library.parameters()).device
        with quiet():
            self.library.eval().change_decoding_strategy(_greedy(library.cfg.decoding), verbose=False)
            self.take()

    @property
    def chunks_ms(self) -> tuple[int, ...]:
        """The chunks that the model has a context for."""
        return choices.chunks_ms(self._contexts)

    def with_chunk(self, chunk_ms: int) -> "NemotronModel":
        """The same library's model with another context. Touches nothing of it. Raises TurnscopeError as the
        constructor does."""
        other = copy.copy(self)
        other.context = choices.context(self._contexts, chunk_ms, self._name)
        return other

    @property
    def first_frames(self) -> int:
        """Feature frames of a stream's first chunk: its first encoder frame depends on one of them only."""
        return 1 + self.subsampling * self.context[1]

    @property
    def later_frames(self) -> int:
        """Feature frames of every later chunk."""
        return self.subsampling * (self.context[1] + 1)

    def take(self) -> None:
        """Give the library's model this engine's context and language."""
        if self.library.encoder.att_context_size != self.context:
            self.library.encoder.set_default_att_context_size(self.context)
        prompt = (self._prompts or {}).get(self.language)
        if prompt is not None and getattr(self.library, "_inference_prompt_index", None) != prompt:
            self.library.set_inference_prompt(self.language)


def new_tokens(hypothesis: Any) -> list[int]:
    """The tokens that the last decoding call added. They are taken out of the hypothesis, so that the next call neither
    carries nor detokenises them again."""
    tokens = hypothesis.y_sequence.tolist()
    hypothesis.y_sequence, hypothesis.timestamp = hypothesis.y_sequence[:0], hypothesis.timestamp[:0]
    return tokens


def _require_streaming(library: Any, name: str) -> None:
    """Raises TurnscopeError unless a chunk's frames depend on that chunk and the sound before it only."""
    lacks = "no Conformer over mel features"
    if isinstance(library.encoder, ConformerEncoder) and isinstance(
        library.preprocessor, AudioToMelSpectrogramPreprocessor
    ):
        lacks = " and ".join(_what_streaming_lacks(library.encoder, library.preprocessor.featurizer))
    if lacks:
        raise TurnscopeError(
            f"The model {name} cannot be streamed (it has {lacks}): choose a cache-aware streaming model, such as "
            "nemotron."
        )


def _what_streaming_lacks(encoder: Any, features: Any) -> list[str]:
    frame = (features.sample_rate, encoder.subsampling_factor * features.hop_length)
    there = {
        "no chunked attention": encoder.att_context_style == "chunked_limited",
        "no causal convolutions": encoder.conv_context_size[1] == 0 and getattr(encoder.pre_encode, "is_causal", False),
        "features that depend on later sound": features.normalize not in ("per_feature", "all_features"),
        "no frames of 80 ms at 16 kHz": frame == (RATE_HZ, RATE_HZ * choices.FRAME_MS // 1000),
    }
    return [what for what, fine in there.items() if not fine]


def _prompt_dictionary(library: Any) -> dict[str, int] | None:
    if not getattr(library, "concat", False):
        return None
    return dict(library.cfg.model_defaults.get("prompt_dictionary") or {})


def _greedy(decoding: DictConfig) -> DictConfig:
    """The file's decoding settings, made to be greedy and to keep nothing but tokens."""
    wanted = copy.deepcopy(decoding)
    with open_dict(wanted):
        wanted.strategy = "greedy_batch"
        wanted.compute_timestamps = wanted.preserve_alignments = False
        wanted.strip_lang_tags = True
        wanted.greedy = OmegaConf.merge(wanted.get("greedy") or {}, {"loop_labels": True})
    return wanted
