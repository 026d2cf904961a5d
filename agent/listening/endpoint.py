"""When the user starts and stops: a state machine over VAD frames, timed on the sample clock alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.listening.vad import VadFrame
from agent.settings import EndpointSettings

Kind = Literal["hangover", "smart_turn", "max_hangover"]


@dataclass(frozen=True)
class SpeechStarted:
    """Speech has lasted `min_speech_s`; `sample` is where it began."""

    sample: int


@dataclass(frozen=True)
class SilenceAsked:
    """The silence has lasted for the hangover: time to ask smart-turn whether the sentence is finished."""

    last_voiced_sample: int


@dataclass(frozen=True)
class SpeechEnded:
    """The turn is over. `sample` is where on the sample clock the silence was long enough."""

    last_voiced_sample: int
    sample: int
    kind: Kind


EndpointEvent = SpeechStarted | SilenceAsked | SpeechEnded


class _State(StrEnum):
    IDLE = "idle"
    SPEAKING = "speaking"


class Endpoint:
    """Feed it VAD frames in order; it says when speech starts, when to ask smart-turn, and when the turn is over.

    Modes (`EndpointSettings.mode`): `hangover` ends the turn after a fixed silence; `hangover+smart-turn` asks
    smart-turn after the hangover and ends the turn on its yes, or after `max_hangover_s`; `smart-turn` asks as soon
    as there is silence at all.
    """

    def __init__(self, settings: EndpointSettings):
        self._settings = settings
        self._state = _State.IDLE
        self._voiced_run_start: int | None = None
        self._last_voiced = 0
        self._asked = False

    @property
    def speaking(self) -> bool:
        """True from SpeechStarted to SpeechEnded, silences inside included."""
        return self._state is _State.SPEAKING

    @property
    def last_voiced_sample(self) -> int:
        return self._last_voiced

    def push(self, frame: VadFrame) -> Iterator[EndpointEvent]:
        if self._state is _State.IDLE:
            yield from self._await_speech(frame)
        elif frame.probability >= self._settings.continue_threshold:
            self._last_voiced = frame.end_sample
            self._asked = False
        else:
            yield from self._measure_silence(frame)

    def finished(self, question: SilenceAsked, probability: float) -> bool:
        """Smart-turn's verdict on a question: does it end the turn? False when the user has gone on since it was
        asked."""
        stands = self.speaking and self._asked and question.last_voiced_sample == self._last_voiced
        if stands and probability >= self._settings.smart_turn_threshold:
            self._state = _State.IDLE
            return True
        return False

    def _await_speech(self, frame: VadFrame) -> Iterator[EndpointEvent]:
        if frame.probability < self._settings.start_threshold:
            self._voiced_run_start = None
            return
        if self._voiced_run_start is None:
            self._voiced_run_start = frame.start_sample
        if frame.end_sample - self._voiced_run_start >= self._settings.min_speech_s * CAPTURE_RATE_HZ:
            self._state = _State.SPEAKING
            self._last_voiced = frame.end_sample
            self._asked = False
            yield SpeechStarted(self._voiced_run_start)
            self._voiced_run_start = None

    def _measure_silence(self, frame: VadFrame) -> Iterator[EndpointEvent]:
        silence_s = (frame.end_sample - self._last_voiced) / CAPTURE_RATE_HZ
        with_smart_turn = self._settings.asks_smart_turn
        if not self._asked and silence_s >= self._settings.effective_hangover_s:
            if not with_smart_turn:
                self._state = _State.IDLE
                yield SpeechEnded(self._last_voiced, frame.end_sample, "hangover")
                return
            self._asked = True
            yield SilenceAsked(self._last_voiced)
        if with_smart_turn and silence_s >= self._settings.max_hangover_s:
            self._state = _State.IDLE
            yield SpeechEnded(self._last_voiced, frame.end_sample, "max_hangover")
