"""The last of what was captured, by sample number."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import Packet


class RecordedSound:
    """Packets in order; what lies between them is silence. `start` and `end` are 0 before the first one."""

    def __init__(self) -> None:
        self._packets: deque[Packet] = deque()

    @property
    def start(self) -> int:
        return self._packets[0].start_sample if self._packets else 0

    @property
    def end(self) -> int:
        return self._packets[-1].end_sample if self._packets else 0

    def append(self, packet: Packet) -> None:
        self._packets.append(packet)

    def forget(self, before: int) -> None:
        """Whole packets that lie before this sample."""
        while self._packets and self._packets[0].end_sample <= before:
            self._packets.popleft()

    def between(self, start: int, end: int) -> NDArray[np.float32]:
        """float32 (end - start,), or none where that is negative."""
        out = np.zeros(max(0, end - start), np.float32)
        for packet in self._packets:
            first, last = max(start, packet.start_sample), min(end, packet.end_sample)
            if first < last:
                out[first - start : last - start] = packet.samples[
                    first - packet.start_sample : last - packet.start_sample
                ]
        return out
