"""How much audio must be ready before a reply starts to play."""

from collections import deque

import numpy as np


class StartBuffer:
    """How much audio must be ready before a reply starts to play, chosen from the measured speed of synthesis.

    Playback may start when what is ready outlasts the making of the next patch, so the buffer is the 95th percentile
    of the recent patches' compute times with a margin of a quarter.
    """

    MARGIN = 1.25
    UNMEASURED_S = 0.1

    def __init__(self) -> None:
        self._patch_s: deque[float] = deque(maxlen=64)

    def observe(self, patch_s: float) -> None:
        """The compute time of one patch, in seconds."""
        self._patch_s.append(patch_s)

    @property
    def needed_s(self) -> float:
        if not self._patch_s:
            return self.UNMEASURED_S
        return float(np.percentile(list(self._patch_s), 95)) * self.MARGIN
