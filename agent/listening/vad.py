"""Voice activity: Silero's probability of speech, frame by frame on the sample clock."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.onnx import check_graph, open_session

FRAME_SAMPLES = 512  # 32 ms at 16 kHz
_CONTEXT_SAMPLES = 64  # the end of the frame before, which the model wants in front of each frame


@dataclass(frozen=True)
class VadFrame:
    """A frame of 32 ms, `start_sample` to `end_sample` on the capture's sample clock, and its probability of speech
    (0 to 1)."""

    start_sample: int
    end_sample: int
    probability: float


class SileroVad:
    """The model, which any number of streams share. Raises TurnscopeError when the file is missing or not a Silero
    VAD."""

    def __init__(self, path: Path):
        self._session = open_session(path)
        check_graph(self._session, path, ["input", "state", "sr"], ["output", "stateN"], "a Silero VAD")

    def open(self, start_sample: int = 0) -> "SileroStream":
        """A stream whose first sample is number `start_sample`."""
        return SileroStream(self._session, start_sample)


class SileroStream:
    """A `VadStream`: what the model carries from frame to frame, and the samples of an incomplete frame."""

    def __init__(self, session: InferenceSession, start_sample: int):
        self._session = session
        self._rate = np.array(CAPTURE_RATE_HZ, np.int64)
        self.reset(start_sample)

    def reset(self, start_sample: int = 0) -> None:
        """Forget what was heard; the next sample is number `start_sample`."""
        self._start_sample = start_sample
        self._state = np.zeros((2, 1, 128), np.float32)
        self._context = np.zeros(_CONTEXT_SAMPLES, np.float32)
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: NDArray[np.float32]) -> list[VadFrame]:
        """Take the next samples, float32 (n,) finite, mono at 16 kHz, any n; return the frames that they complete."""
        self._rest = np.concatenate([self._rest, samples])
        frames: list[VadFrame] = []
        while len(self._rest) >= FRAME_SAMPLES:
            frame, self._rest = self._rest[:FRAME_SAMPLES], self._rest[FRAME_SAMPLES:]
            frames.append(self._judge(frame))
        return frames

    def _judge(self, frame: NDArray[np.float32]) -> VadFrame:
        heard = np.concatenate([self._context, frame])[None]
        inputs = {"input": heard, "state": self._state, "sr": self._rate}
        probability, state = self._session.run(["output", "stateN"], inputs)
        self._state = np.asarray(state)
        self._context = frame[-_CONTEXT_SAMPLES:]
        start, self._start_sample = self._start_sample, self._start_sample + FRAME_SAMPLES
        return VadFrame(start, self._start_sample, float(np.asarray(probability)[0, 0]))
