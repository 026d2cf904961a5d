"""What a conversation asks of an edge: where the user's sound comes in and the reply goes out."""

from collections.abc import AsyncIterator
from typing import Protocol

from agent.audio.output_track import OutputTrack
from agent.audio.sample_clock import Packet, SampleTimes


class Edge(Protocol):
    """A microphone and a speaker, a WebRTC peer, or what plays their part. Dtype, channels and rate are converted here
    and nowhere else.

    `capture` are the times of the sound that comes in, at 16 kHz; a gap in it (lost packets, a stall) is filled with
    silence, so that sample numbers keep to time. `track` is what goes out, at the voice's rate.
    """

    @property
    def capture(self) -> SampleTimes: ...

    @property
    def track(self) -> OutputTrack: ...

    def packets(self) -> AsyncIterator[Packet]:
        """What is captured, in order and without a gap, until the edge is gone."""
        ...
