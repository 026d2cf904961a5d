"""The sound of a segment as the encoder takes it: feature frames, each computed once, and their statistics."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.onnx import check_graph, open_session, run

RATE_HZ = 16_000
HOP = 192  # samples between two feature frames
WINDOW = 511  # samples that one feature frame sees
_OUTPUTS = ["features", "sums", "squares"]
_CHANNELS = 832
_CONV1_CHANNELS = 416
_CONV1_PER_HOP, _CONV1_OVERLAP = 3, 4  # n feature frames see 3 n + 4 frames of the first convolution
_NORM_EPSILON = 1e-5  # of Moonshine's group norm
_BLOCK = 16  # frames per call: a fixed shape, so that a frame's value does not depend on the packets it came in


class Frontend:
    """The graph from samples to feature frames: Moonshine's convolutions before its group norm. They have no bias, so
    the frames of silence are zero."""

    def __init__(self, path: Path, threads: int) -> None:
        self._session = open_session(path, threads)
        check_graph(self._session, path, ["samples"], _OUTPUTS, "Moonshine's front end")

    def run(
        self, samples: NDArray[np.float32], count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """The first `count` feature frames (832, count), at most 16, of `samples` followed by silence, and the sums and
        sums of squares (3 count + 4,) over the channels of the first convolution's frames below them.
        """
        block = np.zeros((1, _BLOCK * HOP + WINDOW - HOP), np.float32)
        block[0, : len(samples)] = samples
        features, sums, squares = run(self._session, _OUTPUTS, {"samples": block})
        inner = _CONV1_PER_HOP * count + _CONV1_OVERLAP
        return features[0, :, :count], sums[0, :inner], squares[0, :inner]


class Sound:
    """A growing segment."""

    def __init__(self, frontend: Frontend, samples: NDArray[np.float32] | None = None) -> None:
        self._frontend = frontend
        self._samples = np.zeros(0, np.float32)
        self._features = np.zeros((_CHANNELS, 0), np.float32)
        self._sums = np.zeros(0, np.float32)
        self._squares = np.zeros(0, np.float32)
        if samples is not None:
            self.push(samples)

    def __len__(self) -> int:
        """Samples."""
        return len(self._samples)

    @property
    def seconds(self) -> float:
        return len(self._samples) / RATE_HZ

    def push(self, samples: NDArray[np.float32]) -> None:
        """Add samples (16 kHz mono) and compute the frames that they complete."""
        self._samples = np.concatenate([self._samples, samples])
        total = max(0, (len(self._samples) - WINDOW) // HOP + 1)
        features, first = [self._features], self._features.shape[1]
        while first < total:
            last = min(first + _BLOCK, total)
            block = self._samples[first * HOP : (last - 1) * HOP + WINDOW]
            frames, sums, squares = self._frontend.run(block, last - first)
            features.append(frames)
            self._sums = np.concatenate([self._sums[: _CONV1_PER_HOP * first], sums])
            self._squares = np.concatenate([self._squares[: _CONV1_PER_HOP * first], squares])
            first = last
        self._features = np.concatenate(features, axis=1)

    def after(self, sample: int) -> "Sound":
        """The part from `sample` on, as a segment of its own."""
        return Sound(self._frontend, self._samples[sample:])

    def before(self, sample: int) -> "Sound":
        """The part up to `sample`, as a segment of its own."""
        return Sound(self._frontend, self._samples[:sample])

    def inputs(self, silence_frames: int = 0) -> dict[str, NDArray[np.float32]]:
        """What the encoder takes of the segment followed by so many frames of silence (not 1 or 2).

        That is: features (1, 832, n) before the norm, and the mean and deviation (1,) to normalise by. Without silence
        the samples of a frame that is not complete are left out.
        """
        complete = self._features.shape[1]
        rest = self._samples[complete * HOP :]
        begun = min(silence_frames, -(-len(rest) // HOP))  # frames that see samples and silence
        frames, sums, squares = self._frontend.run(rest, begun)
        silence = np.zeros((_CHANNELS, silence_frames - begun), np.float32)
        features = np.concatenate([self._features, frames, silence], axis=1)
        inner = _CONV1_PER_HOP * complete
        count = (_CONV1_PER_HOP * features.shape[1] + _CONV1_OVERLAP) * _CONV1_CHANNELS
        mean = (self._sums[:inner].sum(dtype=np.float64) + sums.sum(dtype=np.float64)) / count
        square = (self._squares[:inner].sum(dtype=np.float64) + squares.sum(dtype=np.float64)) / count
        return {
            "features": features[None],
            "mean": np.array([mean], np.float32),
            "deviation": np.array([np.sqrt(max(0.0, square - mean**2) + _NORM_EPSILON)], np.float32),
        }

    def powers(self, span: int) -> NDArray[np.float64]:
        """The mean square of each whole `span` samples."""
        spans = self._samples[: len(self) // span * span].reshape(-1, span)
        return np.square(spans.astype(np.float64)).mean(axis=1)
