"""Whether an utterance sounds finished: the smart-turn model on the last 8 seconds of it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.listening.log_mel import log_mel
from agent.onnx import check_graph, open_session

HEARD_S = 8.0


class SmartTurn:
    """Raises TurnscopeError when the file is missing or not a smart-turn model."""

    def __init__(self, path: Path, threads: int = 1):
        self._session = open_session(path, threads)
        check_graph(self._session, path, ["input_features"], ["logits"], "a smart-turn model")

    def probability(self, samples: NDArray[np.float32]) -> float:
        """The probability (0 to 1) that the speaker has finished. `samples`: float32 (n,) 16 kHz mono, the utterance
        with the silence after it; the last 8 s count."""
        features = log_mel(samples, round(HEARD_S * CAPTURE_RATE_HZ))
        (probability,) = self._session.run(["logits"], {"input_features": features[None]})
        return float(np.asarray(probability).reshape(-1)[0])
