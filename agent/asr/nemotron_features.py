"""Log-mel features of a stream, chunk by chunk, each frame what the model's preprocessor makes of the whole sound."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

NOTHING = np.zeros(0, np.float32)


class FeatureStream:
    """Takes samples in packets of any size and hands out frames of 10 ms.

    Frame `t` depends on the samples within half a window of `t` hops, and on one before them (pre-emphasis), so a run
    of frames is computed from its own samples and those of two frames before it (to 1e-6).
    """

    def __init__(self, preprocessor: Any, device: torch.device) -> None:
        """`preprocessor` is NeMo's AudioToMelSpectrogramPreprocessor, in evaluation mode (it adds no dither)."""
        self._preprocessor = preprocessor
        self._device = device
        self._hop, self._reach = hop_and_reach(preprocessor)
        self._fft: int = preprocessor.featurizer.n_fft
        self._look_back = -(-(self._reach + 1) // self._hop)
        self._samples = NOTHING
        self._start = 0  # the sample of the stream with which `_samples` begins
        self.frames = 0
        """Frames handed out so far."""

    @property
    def end(self) -> int:
        """Samples taken so far."""
        return self._start + len(self._samples)

    def push(self, samples: NDArray[np.float32]) -> None:
        self._samples = np.concatenate([self._samples, samples])

    def has(self, frames: int) -> bool:
        """Whether the next `frames` frames can be computed."""
        return self.end >= samples_of(self.frames + frames, self._hop, self._reach)

    def take(self, frames: int) -> torch.Tensor:
        """The next frames, [1, mel bands, frames]; `has` must have said that they are there."""
        look_back = min(self._look_back, self.frames)
        first = (self.frames - look_back) * self._hop
        last = samples_of(self.frames + frames, self._hop, self._reach)
        sound = np.pad(self._samples[first - self._start : last - self._start], (0, self._fft))
        signal = torch.from_numpy(sound)[None].to(self._device)
        length = torch.tensor([signal.shape[1]], device=self._device)
        features, _ = self._preprocessor(input_signal=signal, length=length)
        self.frames += frames
        self._forget((self.frames - self._look_back) * self._hop)
        return features[:, :, look_back : look_back + frames]

    def _forget(self, before: int) -> None:
        if before > self._start:
            self._samples = self._samples[before - self._start :]
            self._start = before


def samples_of(frames: int, hop: int, reach: int) -> int:
    """How many samples of a stream its first `frames` frames depend on."""
    return (frames - 1) * hop + reach


def hop_and_reach(preprocessor: Any) -> tuple[int, int]:
    """Samples between two frames, and samples that a frame looks ahead (half a window)."""
    return preprocessor.featurizer.hop_length, preprocessor.featurizer.win_length // 2
