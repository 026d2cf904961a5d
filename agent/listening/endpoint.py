"""When the user starts and stops: a state machine over VAD frames, timed on the sample clock alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.listening.end_of_turn import EndOfTurn, TextEnd, together
from agent.listening.vad import VadFrame
from agent.settings import EndpointSettings

Kind = Literal["hangover", "smart_turn", "chosen_hangover", "max_hangover"]


@dataclass(frozen=True)
class SpeechStarted:
    """Speech has lasted `min_speech_s`; `sample` is where it began."""

    sample: int


@dataclass(frozen=True)
class SilenceAsked:
    """The silence has lasted for `after_s`: time to ask smart-turn, for the `number`-th time, whether the sentence is
    finished."""

    last_voiced_sample: int
    number: int
    after_s: float


@dataclass(frozen=True)
class SpeechEnded:
    """The turn is over. `sample` is where on the sample clock the silence had lasted for `after_s`."""

    last_voiced_sample: int
    sample: int
    kind: Kind
    after_s: float


EndpointEvent = SpeechStarted | SilenceAsked | SpeechEnded


@dataclass(frozen=True)
class Decision:
    """How long a silence is waited for, and why: `probability` is that of a finished sentence, by all answers in this
    silence. `is_over` says that it has lasted that long already, so that the turn is over."""

    probability: float
    text: TextEnd
    wait_s: float
    is_over: bool


class _State(StrEnum):
    IDLE = "idle"
    SPEAKING = "speaking"


@dataclass
class _Silence:
    """What is known of the silence at hand: how long it has lasted, how often smart-turn was asked, and what came of
    it. `due_s` is the silence that ends the turn; no question is due before `free_s`."""

    due_s: float
    lasted_s: float = 0.0
    asked: int = 0
    waiting: bool = False  # for an answer
    free_s: float = 0.0
    answers: list[float] = field(default_factory=list[float])
    text: TextEnd = TextEnd.UNKNOWN


class Endpoint:
    """Feed it VAD frames in order; it says when speech starts, when to ask smart-turn, and when the turn is over.

    Modes (`EndpointSettings.mode`): `hangover` ends the turn after a fixed silence; `hangover+smart-turn` asks
    smart-turn after the hangover and, as `EndOfTurn` says, ends the turn on its yes or waits for up to
    `max_hangover_s`; `smart-turn` asks as soon as there is silence at all.
    """

    def __init__(self, settings: EndpointSettings):
        self.follow(settings)
        self._state = _State.IDLE
        self._voiced_run_start: int | None = None
        self._last_voiced = 0
        self._silence = _Silence(settings.max_hangover_s)

    def follow(self, settings: EndpointSettings) -> None:
        """Go on by other settings. A silence that is being measured is a matter of those before."""
        self._settings = settings
        self._rule = EndOfTurn(settings)

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
            self._voiced(frame)
        else:
            self._silence.lasted_s = (frame.end_sample - self._last_voiced) / CAPTURE_RATE_HZ
            yield from self._measure_silence(frame)

    def answered(self, question: SilenceAsked, probability: float, text: TextEnd) -> Decision | None:
        """Smart-turn's answer to a question, and how the words so far end. None when the user has gone on since it was
        asked, or the turn is over."""
        silence = self._silence
        asked = (self._last_voiced, silence.asked)
        if not (self.speaking and silence.waiting and (question.last_voiced_sample, question.number) == asked):
            return None
        silence.waiting, silence.free_s, silence.text = False, silence.lasted_s, text
        silence.answers.append(probability)
        finished = together(silence.answers)
        wait_s = silence.due_s = self._rule.wait_s(finished, text)
        is_over = silence.lasted_s >= wait_s
        if is_over:
            self._state = _State.IDLE
        return Decision(finished, text, wait_s, is_over)

    def reread(self, text: TextEnd) -> Decision | None:
        """More of the words before the silence are known. The turn is not over before another frame. None when they
        end as before, or smart-turn has not answered in this silence: they count when it does."""
        silence = self._silence
        if not self.speaking or not silence.answers or text is silence.text:
            return None
        silence.text = text
        finished = together(silence.answers)
        wait_s = self._rule.wait_s(finished, text)
        silence.due_s = max(wait_s, silence.lasted_s)
        return Decision(finished, text, wait_s, is_over=False)

    def _voiced(self, frame: VadFrame) -> None:
        self._last_voiced = frame.end_sample
        self._silence = _Silence(self._settings.max_hangover_s)

    def _await_speech(self, frame: VadFrame) -> Iterator[EndpointEvent]:
        if frame.probability < self._settings.start_threshold:
            self._voiced_run_start = None
            return
        if self._voiced_run_start is None:
            self._voiced_run_start = frame.start_sample
        if frame.end_sample - self._voiced_run_start >= self._settings.min_speech_s * CAPTURE_RATE_HZ:
            self._state = _State.SPEAKING
            self._voiced(frame)
            yield SpeechStarted(self._voiced_run_start)
            self._voiced_run_start = None

    def _measure_silence(self, frame: VadFrame) -> Iterator[EndpointEvent]:
        silence, longest_s = self._silence, self._settings.max_hangover_s
        if not self._settings.asks_smart_turn:
            if silence.lasted_s >= self._rule.shortest_s:
                yield self._ended(frame, "hangover", self._rule.shortest_s)
        elif silence.lasted_s >= silence.due_s:
            yield self._ended(frame, "max_hangover" if silence.due_s >= longest_s else "chosen_hangover", silence.due_s)
        elif not silence.waiting and (due := self._rule.questions_by(silence.lasted_s)) > silence.asked:
            silence.asked, silence.waiting = due, True
            yield SilenceAsked(self._last_voiced, due, max(self._rule.asking_at_s[due - 1], silence.free_s))

    def _ended(self, frame: VadFrame, kind: Kind, after_s: float) -> SpeechEnded:
        self._state = _State.IDLE
        return SpeechEnded(self._last_voiced, frame.end_sample, kind, after_s)
