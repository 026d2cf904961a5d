"""Piper voices (VITS) as a streaming synthesiser: one encoder run per phrase, then the decoder in patches of frames.

The decoder sees a bounded stretch of the latent, so a patch that is decoded with 12 more frames on both sides, cut off
afterwards, equals the same samples of the whole (to 1e-5). The first patch is small so that sound starts early; later
ones are larger, since each pays for its overlap again. One frame of the medium voices is 256 samples, 11.6 ms.

The audio of a phrase is a pure function of its text: the voice's noise is a fixed table in the encoder's graph, put
there when the voice was converted (`agent.models.convert.piper`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.errors import TurnscopeError
from agent.onnx import check_graph, open_session
from agent.tts.phonemizers import PhonemizerName, open_phonemizer
from agent.tts.protocol import Patch, Setup, ShouldStop
from agent.tts.word_times import word_ends
from profiling.trace.clock import Clock, SystemClock
from profiling.trace.timeline import Attribute

LATENT, DURATIONS = "latent", "durations"  # the names of the tensors where the voice is cut
INPUTS = ("input", "input_lengths", "scales")
FRAME_SAMPLES = 256  # audio samples of one latent frame, in every Piper voice
_START, _END, _PAD = "^", "$", "_"


@dataclass(frozen=True)
class Voice:
    """What the engine needs of a voice.json. `scales` are noise, length (above 1 is slower) and duration noise."""

    sample_rate: int
    espeak_voice: str
    ids: Mapping[str, tuple[int, ...]]
    scales: NDArray[np.float32]

    @classmethod
    def read(cls, path: Path) -> "Voice":
        """Raises TurnscopeError when the file is missing or does not describe a single-speaker voice that reads espeak
        phonemes."""
        try:
            config: Any = json.loads(path.read_text(encoding="utf-8"))
            inference = config["inference"]
            voice = cls(
                int(config["audio"]["sample_rate"]),
                str(config["espeak"]["voice"]),
                {str(phoneme): tuple(map(int, ids)) for phoneme, ids in config["phoneme_id_map"].items()},
                np.array([inference["noise_scale"], inference["length_scale"], inference["noise_w"]], np.float32),
            )
            speakers, kind = int(config.get("num_speakers", 1)), config.get("phoneme_type", "espeak")
        except OSError as error:
            raise TurnscopeError(
                f"The voice file {path} cannot be read ({error.strerror}); fetch the voice again."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TurnscopeError(f"The file {path} does not describe a Piper voice; fetch the voice again.") from error
        if kind != "espeak" or speakers != 1 or not {_START, _END, _PAD} <= voice.ids.keys():
            raise TurnscopeError(
                f"The voice {path} is no single-speaker Piper voice that reads espeak phonemes; choose such a voice."
            )
        return voice


class PiperEngine:
    """A `TtsEngine`. One phrase at a time; a phrase's state lives in its generator, so a phrase may be dropped at any
    point."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        threads: int = 1,
        clock: Clock | None = None,
        phonemizer: PhonemizerName = "espeak",
        first_patch_frames: int = 16,
        patch_frames: int = 48,
        overlap_frames: int = 12,
    ) -> None:
        """Load the voice in `folder`: encoder.onnx, decoder.onnx, voice.json.

        Raises TurnscopeError when a file is missing or of the wrong kind, or the phonemizer's package is not installed.
        """
        self.model = name or folder.name
        self._voice = Voice.read(folder / "voice.json")
        self.sample_rate = self._voice.sample_rate
        self._phonemize = open_phonemizer(phonemizer, self._voice.espeak_voice)
        self._encoder = open_session(folder / "encoder.onnx", threads)
        check_graph(self._encoder, folder / "encoder.onnx", INPUTS, [LATENT, DURATIONS], "the encoder of a Piper voice")
        self._decoder = open_session(folder / "decoder.onnx", threads)
        check_graph(self._decoder, folder / "decoder.onnx", [LATENT], ["output"], "the decoder of a Piper voice")
        self.attributes: Mapping[str, Attribute] = {}
        self._clock = clock or SystemClock()
        self._first_patch_frames = first_patch_frames
        self._patch_frames = patch_frames
        self._overlap_frames = overlap_frames

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        start_ns = self._clock.now_ns()
        phonemes = self._read(text)
        phonemized_ns = self._clock.now_ns()
        if not phonemes:
            yield Setup(start_ns, phonemized_ns, {"phonemize": phonemized_ns - start_ns}, 0, word_ends(text, "", [0]))
            return
        if should_stop():
            return
        latent, frames = self._encode(phonemes)
        ends = word_ends(text, phonemes, frames)
        end_ns = self._clock.now_ns()
        parts_ns = {"phonemize": phonemized_ns - start_ns, "encode": end_ns - phonemized_ns}
        audio_s = latent.shape[2] * FRAME_SAMPLES / self.sample_rate
        yield Setup(start_ns, end_ns, parts_ns, len(phonemes), ends, audio_s)
        for first, last in plan_patches(latent.shape[2], self._first_patch_frames, self._patch_frames):
            if should_stop():
                return
            start_ns = self._clock.now_ns()
            samples = self._decode(latent, first, last)
            end_ns = self._clock.now_ns()
            yield Patch(samples, start_ns, end_ns, {"decode": end_ns - start_ns})

    def warm_up(self) -> None:
        """Run all three parts once, the decoder in both patch sizes."""
        for _ in self.synthesise("This is how the voice is warmed up before the first phrase.", lambda: False):
            pass

    def _read(self, text: str) -> str:
        """The phonemes of `text` that the voice knows; none when there is nothing to say."""
        if not any(character.isalnum() for character in text):
            return ""
        printable = "".join(character if character.isprintable() else " " for character in text)
        known = "".join(phoneme for phoneme in self._phonemize(printable) if phoneme in self._voice.ids)
        return known.strip()

    def _encode(self, phonemes: str) -> tuple[NDArray[np.float32], list[int]]:
        """The latent (1, channels, n) and, for each phoneme and for the end of the phrase, the frame after it."""
        ids = [*self._voice.ids[_START], *self._voice.ids[_PAD]]
        last_id: list[int] = []
        for phoneme in phonemes:
            ids += [*self._voice.ids[phoneme], *self._voice.ids[_PAD]]
            last_id.append(len(ids) - 1)
        ids += self._voice.ids[_END]
        last_id.append(len(ids) - 1)
        feeds = (np.array([ids], np.int64), np.array([len(ids)], np.int64), self._voice.scales)
        outputs = self._encoder.run([LATENT, DURATIONS], dict(zip(INPUTS, feeds, strict=True)))
        latent, durations = (np.asarray(output, np.float32) for output in outputs)
        ends = np.cumsum(durations.reshape(-1)).astype(int)
        return latent, [int(ends[index]) for index in last_id]

    def _decode(self, latent: NDArray[np.float32], first: int, last: int) -> NDArray[np.float32]:
        """The audio of the frames `first` to `last` (exclusive)."""
        left = max(0, first - self._overlap_frames)
        right = min(latent.shape[2], last + self._overlap_frames)
        outputs = self._decoder.run(None, {LATENT: np.ascontiguousarray(latent[:, :, left:right])})
        audio = np.asarray(outputs[0], np.float32).reshape(-1)
        return audio[(first - left) * FRAME_SAMPLES : (last - left) * FRAME_SAMPLES]


def plan_patches(frames: int, first: int, later: int) -> list[tuple[int, int]]:
    """Cut `frames` into a first patch of `first` frames and equal later ones of about `later` frames.

    A rest of less than half a first patch joins the first patch, so no patch is tiny unless the phrase is.
    """
    rest = frames - first
    if rest < first / 2:
        return [(0, frames)]
    count = max(1, round(rest / later))
    bounds = [first + rest * number // count for number in range(count + 1)]
    return [(0, first), *pairwise(bounds)]
