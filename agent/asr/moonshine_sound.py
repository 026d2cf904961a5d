"""The sound of one segment as the encoder takes it: features that are computed once per sample, and their statistics."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.onnx import check_graph, open_session

RATE_HZ = 16_000
HOP = 192  # samples between two feature frames
WINDOW = 511  # samples that one feature frame sees
CHANNELS = 832
_CONV1_CHANNELS = 416
_CONV1_PER_HOP, _CONV1_OVERLAP = 3, 4  # n feature frames see 3 n + 4 frames of the first convolution
_NORM_EPSILON = 1e-5  # of Moonshine's group norm
_BLOCK = 16  # frames per call: a fixed shape, so that a frame's value does not depend on the packets it came in


class Frontend:
    """The graph from samples to feature frames: Moonshine's convolutions before its group norm."""

    def __init__(self, path: Path, threads: int) -> None:
        self._session = open_session(path, threads)
        check_graph(self._session, path, ["samples"], ["features", "sums", "squares"], "Moonshine's front end")

    def run(self, samples: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Features (832, n), and the sums and sums of squares (3 n + 4,) of the first convolution's frames.

        `samples` are at least WINDOW; n is `frames_in(len(samples))`, at most 16.
        """
        count = frames_in(len(samples))
        block = np.zeros((1, _BLOCK * HOP + WINDOW - HOP), np.float32)
        block[0, : len(samples)] = samples
        features, sums, squares = self._session.run(["features", "sums", "squares"], {"samples": block})
        inner = _CONV1_PER_HOP * count + _CONV1_OVERLAP
        return features[0, :, :count], sums[0, :inner], squares[0, :inner]


class Sound:
    """A growing segment. Frames at its end that are not yet complete (up to 12 ms) wait for the next samples."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._samples = np.zeros(0, np.float32)
        self._features = np.zeros((CHANNELS, 0), np.float32)
        self._sums = np.zeros(0, np.float32)
        self._squares = np.zeros(0, np.float32)

    @property
    def frames(self) -> int:
        return self._features.shape[1]

    @property
    def seconds(self) -> float:
        return self.frames * HOP / RATE_HZ

    def push(self, samples: NDArray[np.float32]) -> None:
        """Add samples (16 kHz mono) and compute the frames that they complete."""
        self._samples = np.concatenate([self._samples, samples])
        total = frames_in(len(self._samples))
        features, first = [self._features], self.frames
        while first < total:
            last = min(first + _BLOCK, total)
            block = self._samples[first * HOP : (last - 1) * HOP + WINDOW]
            frames, sums, squares = self._frontend.run(block)
            features.append(frames)
            self._sums = np.concatenate([self._sums[: _CONV1_PER_HOP * first], sums])
            self._squares = np.concatenate([self._squares[: _CONV1_PER_HOP * first], squares])
            first = last
        self._features = np.concatenate(features, axis=1)

    def after(self, frame: int) -> "Sound":
        """The part from `frame` on, as a segment of its own."""
        part = Sound(self._frontend)
        part._samples = self._samples[frame * HOP :].copy()
        part._features = self._features[:, frame:].copy()
        part._sums = self._sums[_CONV1_PER_HOP * frame :].copy()
        part._squares = self._squares[_CONV1_PER_HOP * frame :].copy()
        return part

    def before(self, frame: int) -> "Sound":
        """The part up to `frame`, as a segment of its own."""
        part = Sound(self._frontend)
        part._samples = self._samples[: frame * HOP + WINDOW - HOP].copy()
        part._features = self._features[:, :frame].copy()
        part._sums = self._sums[: _CONV1_PER_HOP * frame + _CONV1_OVERLAP].copy()
        part._squares = self._squares[: _CONV1_PER_HOP * frame + _CONV1_OVERLAP].copy()
        return part

    def inputs(self) -> dict[str, NDArray[np.float32]]:
        """What the encoder takes: features (1, 832, n) before the norm, and the mean and deviation (1,) to normalise by."""
        count = len(self._sums) * _CONV1_CHANNELS
        mean = self._sums.sum(dtype=np.float64) / count
        variance = max(0.0, self._squares.sum(dtype=np.float64) / count - mean**2)
        return {
            "features": self._features[None],
            "mean": np.array([mean], np.float32),
            "deviation": np.array([np.sqrt(variance + _NORM_EPSILON)], np.float32),
        }

    def powers(self) -> NDArray[np.float64]:
        """The mean square of the samples of each frame's hop, (n,)."""
        hops = self._samples[: self.frames * HOP].reshape(-1, HOP).astype(np.float64)
        return np.square(hops).mean(axis=1)


def frames_in(samples: int) -> int:
    """How many complete feature frames so many samples hold."""
    return max(0, (samples - WINDOW) // HOP + 1)
