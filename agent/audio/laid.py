"""Where a reply's sound lies on the output's sample clock: which of it has left, and what can still be taken back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.audio.wav import first_audible_sample

Samples = NDArray[np.float32]
Sound = tuple[int, Samples]  # the number of a phrase, and samples of it


@dataclass(frozen=True)
class _Piece:
    """Samples of a phrase: `position` counts the reply's own samples, `start` those of the output."""

    phrase: int
    position: int
    start: int
    samples: Samples


class Laid:
    """A reply's sound in the order in which it is said, as far as it has been laid on the output."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    @property
    def start(self) -> int | None:
        """The output's sample where the reply begins; None before anything is laid."""
        return self._pieces[0].start if self._pieces else None

    def add(self, start: int, sound: Sound) -> None:
        phrase, samples = sound
        last = self._pieces[-1] if self._pieces else None
        position = last.position + len(last.samples) if last else 0
        self._pieces.append(_Piece(phrase, position, start, samples))

    def take_back(self, sample: int) -> list[Sound]:
        """Remove what lies at or after the output's `sample` and return it, in order."""
        kept: list[_Piece] = []
        back: list[Sound] = []
        for piece in self._pieces:
            count = min(max(0, sample - piece.start), len(piece.samples))
            if count:
                kept.append(_Piece(piece.phrase, piece.position, piece.start, piece.samples[:count]))
            if count < len(piece.samples):
                back.append((piece.phrase, piece.samples[count:]))
        self._pieces = kept
        return back

    def left(self, phrase: int, before: int) -> int | None:
        """How many of the phrase's samples lie before the output's sample `before`; None when none is laid."""
        pieces = [piece for piece in self._pieces if piece.phrase == phrase]
        return sum(min(max(0, before - piece.start), len(piece.samples)) for piece in pieces) if pieces else None

    def sample_of(self, position: int) -> int | None:
        """Where the reply's own sample `position` lies on the output; None while it is not laid."""
        for piece in self._pieces:
            if piece.position <= position < piece.position + len(piece.samples):
                return piece.start + position - piece.position
        return None


class Opening:
    """The beginning of a reply until it is audible; `audible_at` counts the reply's own samples."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._silent = np.zeros(0, np.float32)
        self.audible_at: int | None = None

    def push(self, samples: Samples) -> None:
        if self.audible_at is None:
            self._silent = np.concatenate([self._silent, samples])
            self.audible_at = first_audible_sample(self._silent, self._rate_hz)


def split(sounds: Sequence[Sound], count: int) -> tuple[list[Sound], list[Sound]]:
    """The first `count` samples, and the rest."""
    first: list[Sound] = []
    rest: list[Sound] = []
    for phrase, samples in sounds:
        if count:
            first.append((phrase, samples[:count]))
        if count < len(samples):
            rest.append((phrase, samples[count:]))
        count = max(0, count - len(samples))
    return first, rest


def scaled(sounds: Sequence[Sound], start: float, end: float) -> list[Sound]:
    """The same sound, its level going in a straight line from `start` to `end` times its own."""
    ramp = np.linspace(start, end, sum(len(samples) for _, samples in sounds), dtype=np.float32)
    out: list[Sound] = []
    for phrase, samples in sounds:
        here, ramp = ramp[: len(samples)], ramp[len(samples) :]
        out.append((phrase, samples * here))
    return out
