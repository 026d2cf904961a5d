"""Whose voice VoxCPM2 speaks with: described in words, taken from a recording, or continued from one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile

from agent.audio.wav import read_wav, require_sound
from agent.errors import TurnscopeError
from agent.tts.voxcpm_checkpoint import VoxCPM2Model

_BRACKETS = "()（）"


@dataclass(frozen=True)
class Voice:
    """With nothing given, the model chooses a voice of its own for each phrase.

    `description` ("a calm old man, speaking slowly") makes a voice, or steers the manner of the one in
    `reference_wav`. `prompt_wav` is speech that every phrase goes on from, and `prompt_text` what is said in it; a
    description cannot steer that. `reference_wav` and a prompt may be given together.
    """

    description: str | None = None
    reference_wav: Path | None = None
    prompt_wav: Path | None = None
    prompt_text: str | None = None

    def check(self) -> None:
        """Raise TurnscopeError for what does not go together, and for a recording that cannot serve."""
        if self.description is not None:
            if not any(character.isalnum() for character in self.description):
                raise TurnscopeError("The description of the voice has no words: describe a voice, or leave it out.")
            if any(bracket in self.description for bracket in _BRACKETS):
                raise TurnscopeError(
                    f"The description of the voice, {self.description!r}, has parentheses, which mark its own end for "
                    "the model: write it without."
                )
            if self.prompt_wav is not None:
                raise TurnscopeError(
                    "A voice that goes on from a prompt recording cannot be described too: give the description or the "
                    "prompt, or a reference recording with the description."
                )
        if self.prompt_wav is not None and not (self.prompt_text or "").strip():
            raise TurnscopeError(f"The prompt recording {self.prompt_wav} needs its text: say what is spoken in it.")
        if self.prompt_text is not None and self.prompt_wav is None:
            raise TurnscopeError("The prompt text needs its recording: give the WAV file in which it is spoken.")
        for path in (self.reference_wav, self.prompt_wav):
            if path is not None:
                require_sound(read_wav(path))

    def text(self, phrase: str) -> str:
        """What the model is given to read for a phrase: a description stands in parentheses before it."""
        return phrase if self.description is None else f"({' '.join(self.description.split())}){phrase}"

    @property
    def is_recorded(self) -> bool:
        return self.reference_wav is not None or self.prompt_wav is not None

    @property
    def said_before(self) -> str:
        """What the text of every phrase is put behind."""
        return "" if self.prompt_wav is None else (self.prompt_text or "").strip()

    def positions(self, model: VoxCPM2Model) -> int:
        """How many positions of the KV cache the recordings will take, the two markers of a reference included."""
        reference = 0 if self.reference_wav is None else _patches(self.reference_wav, model) + 2
        return reference + (0 if self.prompt_wav is None else _patches(self.prompt_wav, model))

    def encode(self, model: VoxCPM2Model) -> "Prompt":
        """Put the recordings through the model's encoder, which takes time and memory for every second of them."""
        given: dict[str, Any] = {}
        if self.reference_wav is not None:
            given["reference_wav_path"] = str(self.reference_wav)
        if self.prompt_wav is not None and self.prompt_text is not None:
            given |= {"prompt_wav_path": str(self.prompt_wav), "prompt_text": self.said_before}
        return Prompt(model.build_prompt_cache(**given) if given else None)


@dataclass(frozen=True)
class Prompt:
    """Encoded recordings, in the library's form, which serves any number of phrases; None for none."""

    cache: Mapping[str, Any] | None


def _patches(path: Path, model: VoxCPM2Model) -> int:
    """Of a recording, resampled to the encoder's rate; an incomplete one is filled up."""
    recording = soundfile.info(str(path))
    rate_hz = model._encode_sample_rate
    samples = math.ceil(recording.frames * (float(rate_hz) / recording.samplerate))  # as the resampler rounds
    return -(-samples // (model.patch_size * model.chunk_size))
