"""Writes a run as it happens: spans after each turn, both sides of the sound, and what is needed to explain it
elsewhere."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agent.audio.resample import Resampler
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.audio.stereo_writer import StereoWriter
from agent.events import Event, TurnEnded
from profiling.recorded_work import add_work
from profiling.run import RunWriter
from profiling.trace.spans import TurnContent
from profiling.trace.timeline import Turn
from profiling.work_book import WorkBook

if TYPE_CHECKING:
    from profiling.trace.collector import Collector


class ConversationRecording:
    """The conversation as a stereo WAV at the voice's rate: user left, agent right, one clock."""

    def __init__(self, writer: StereoWriter, rate_hz: int):
        self._writer = writer
        self._resampler = Resampler(CAPTURE_RATE_HZ, rate_hz)
        self._left = np.zeros(0, np.float32)
        self._right = np.zeros(0, np.float32)

    def record(self, user: NDArray[np.float32], agent: NDArray[np.float32]) -> None:
        """The next samples of both sides: equal times, user at 16 kHz, agent at the voice's rate."""
        self._append(self._resampler.push(user), agent)

    def close(self) -> None:
        self._append(self._resampler.flush(), np.zeros(0, np.float32))
        missing = max(0, len(self._right) - len(self._left))
        self._append(np.zeros(missing, np.float32), np.zeros(0, np.float32))
        self._writer.close()

    def _append(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> None:
        self._left, self._right = np.concatenate([self._left, left]), np.concatenate([self._right, right])
        ready = min(len(self._left), len(self._right))
        if ready:
            self._writer.append(self._left[:ready], self._right[:ready])
            self._left, self._right = self._left[ready:], self._right[ready:]


class Session:
    """The run folder's side of a conversation; give it every event. Spans also go to a collector, where one was asked
    for."""

    def __init__(
        self, writer: RunWriter, capture_content: bool, collector: "Collector | None", book: WorkBook | None = None
    ):
        """With a `book`, every step is recorded with the work that it was."""
        self.writer = writer
        self._book = book or WorkBook()
        self._capture_content = capture_content
        self._collector = collector
        self.turns: list[Turn] = []
        self.complete = False
        self.problem: str | None = None

    def observe(self, event: Event) -> None:
        if not isinstance(event, TurnEnded):
            return
        add_work(event.turn, self._book)
        self.turns.append(event.turn)
        content = TurnContent(event.transcript, event.heard) if self._capture_content else None
        spans = self.writer.write_turn(event.turn, content)
        if self._collector:
            self._collector.send(spans)

    def close(self) -> None:
        """Write how the run ended. What the collector did not take is then said in `problem`."""
        if self._collector:
            self.problem = self._collector.close()
        self.writer.close(self.complete)
