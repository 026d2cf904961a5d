"""What leaves an edge, on its sample clock; written on the event loop, read by the edge as its clock runs."""

import threading
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import SampleTimes


class OutputTrack:
    """What leaves the edge: pieces of audio at sample positions, silence between them. An edge reads it as its clock
    runs, on a thread of its own if need be: hold `lock` while what is laid depends on what has been read. `on_read` is
    told, on that thread, what was read from which sample on."""

    def __init__(self, clock: SampleTimes):
        self.clock = clock
        self._pieces: deque[tuple[int, NDArray[np.float32]]] = deque()
        self._read = 0
        self.lock = threading.RLock()
        self.on_read: Callable[[int, NDArray[np.float32]], None] | None = None

    def next_sample(self, now_ns: int) -> int:
        """The next sample that can still leave: an edge may have read ahead of its own output."""
        return max(self.clock.sample_at(now_ns), self._read)

    def lay(self, start_sample: int, samples: NDArray[np.float32]) -> None:
        """Pieces are laid in order and do not overlap."""
        with self.lock:
            self._pieces.append((start_sample, samples))

    def cut(self, sample: int) -> None:
        """Nothing at or after this sample leaves any more."""
        with self.lock:
            while self._pieces and self._pieces[-1][0] + len(self._pieces[-1][1]) > sample:
                start, samples = self._pieces.pop()
                if start < sample:
                    self._pieces.append((start, samples[: sample - start]))
                    return

    def read(self, start_sample: int, count: int) -> NDArray[np.float32]:
        """The samples `start_sample` to `start_sample + count`; reads go forward and forget what lies behind."""
        out = np.zeros(count, np.float32)
        with self.lock:
            self._read = max(self._read, start_sample + count)
            while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start_sample:
                self._pieces.popleft()
            for start, samples in self._pieces:
                if start >= start_sample + count:
                    break
                first, last = max(start, start_sample), min(start + len(samples), start_sample + count)
                out[first - start_sample : last - start_sample] = samples[first - start : last - start]
        if self.on_read is not None:
            self.on_read(start_sample, out)
        return out
