"""A device's thread reads the track while the event loop's lays sound and takes it back."""

import sys
import threading

import numpy as np
import pytest

from agent.audio import playout
from agent.audio.output_track import OutputTrack
from agent.audio.playout import Playback
from agent.audio.start_buffer import StartBuffer
from tests.fakes.virtual_time import VirtualClock

SAMPLES = 300_000
BLOCK = 200


class FromTheStart:
    """Times that leave it to the reads what can still be taken back."""

    rate_hz = 24_000

    def ns_of(self, sample: int) -> int:
        return sample

    def sample_at(self, ns: int) -> int:
        return 0


def test_every_sample_leaves_once_and_in_order_however_the_threads_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playout, "FADE_S", 0.0)  # so that each sample can be told by its value
    track = OutputTrack(FromTheStart())
    play = Playback(VirtualClock(), track, StartBuffer())
    blocks: list[np.ndarray] = []
    enough = threading.Event()

    def read() -> None:
        while not enough.is_set():
            blocks.append(track.read(len(blocks) * BLOCK, BLOCK))
            if blocks[-1].max() == SAMPLES:
                enough.set()

    device = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        device.start()
        for start in range(0, SAMPLES, 1_000):
            play.write(0, np.arange(start + 1, start + 1_001, dtype=np.float32))
            play.pause()
            play.resume()
        play.finish()
        enough.wait(10)
    finally:
        sys.setswitchinterval(interval)
        enough.set()
        device.join()
    heard = np.concatenate(blocks)
    np.testing.assert_array_equal(heard[heard > 0], np.arange(1, SAMPLES + 1, dtype=np.float32))
