"""Barge-in: what a sound of the user's asks of the reply at hand, from how long it lasts and the words in it."""

import re
from collections.abc import Iterable
from enum import IntEnum

from agent.settings import BargeInSettings


class Wish(IntEnum):
    """What the reply should do; of several, the highest counts."""

    GO_ON = 0
    HOLD = 1  # do not begin; what is being heard plays on
    PAUSE = 2
    INTERRUPT = 3  # stop for good


class BargeIn:
    """One utterance of the user, as it is heard. Times are those of the capture's sample clock.

    A reply that has not begun is held from the start of speech. One that is being heard is paused once speech has
    lasted `min_speech_s`, unless all that was recognised by then are back-channel words. Other words interrupt it: at
    once when speech has lasted so long, else when the transcript is final. It goes on when the final transcript holds
    nothing but back-channel words or nothing at all, when nothing more was said for `false_after_s`, or when speech
    has lasted that much longer without a word in it.

    `heard_ns` is when the packet arrived with which speech had lasted long enough: for `min_speech_s`, or before that
    to be taken for speech at all.
    """

    def __init__(self, settings: BargeInSettings, heard_ns: int) -> None:
        self._settings = settings
        self._backchannels = Backchannels(settings.backchannels)
        self._speech_s = 0.0
        self._silence_s = 0.0
        self._text: str | None = None
        self._final = False
        self.heard_ns = heard_ns
        self.wish = Wish.HOLD

    @property
    def enabled(self) -> bool:
        """Whether a reply that is being heard heeds it at all."""
        return self._settings.enabled

    @property
    def why(self) -> str:
        """What the sound is, as far as is known, in a few words."""
        if self._text:
            return "a back-channel" if self.is_backchannel else "words"
        return "no words" if self._final else "nothing more said"

    @property
    def lasts_long(self) -> bool:
        """Whether speech has lasted long enough to pause a reply."""
        return self._speech_s >= self._settings.min_speech_s

    def lasts(self, speech_s: float, silence_s: float, heard_ns: int) -> None:
        """A packet: speech has lasted for `speech_s` up to the last voiced sample, which lies `silence_s` back."""
        before = self.lasts_long
        self._speech_s, self._silence_s = speech_s, silence_s
        if self.lasts_long and not before:
            self.heard_ns = heard_ns
        self._decide()

    def silent_for(self, silence_s: float) -> None:
        """Nothing more was said for so long."""
        self._silence_s = silence_s
        self._decide()

    def recognised(self, text: str, *, final: bool = False) -> None:
        """What has been recognised so far."""
        self._text, self._final = text, final
        self._decide()

    @property
    def is_backchannel(self) -> bool:
        """Whether there are words, and none but back-channel ones."""
        return bool(self._text) and self._backchannels.are_all_of(self._text)

    def _decide(self) -> None:
        words = bool(self._text) and not self.is_backchannel
        if words and (self._final or self.lasts_long):
            self.wish = Wish.INTERRUPT
        elif self._final or self._silence_s >= self._settings.false_after_s or self._is_noise:
            self.wish = Wish.GO_ON
        elif self.wish is not Wish.PAUSE:
            self.wish = Wish.PAUSE if self.lasts_long and not self.is_backchannel else Wish.HOLD

    @property
    def _is_noise(self) -> bool:
        longest_s = self._settings.min_speech_s + self._settings.false_after_s
        return self._text == "" and self._speech_s >= longest_s


class Backchannels:
    """Words and short phrases with which a listener says no more than that he is listening."""

    def __init__(self, phrases: Iterable[str]) -> None:
        spelt = [_words(phrase) for phrase in phrases]
        self._phrases = {*spelt, *(("".join(words),) for words in spelt)}  # "uh-huh" is also written "uhhuh"
        self._longest = max(map(len, self._phrases), default=0)

    def are_all_of(self, text: str) -> bool:
        """Whether the text consists of them, whatever its punctuation and however its sounds are drawn out."""
        words = _words(text)
        reached = {0}
        for end in range(1, len(words) + 1):
            starts = range(max(0, end - self._longest), end)
            if any(start in reached and words[start:end] in self._phrases for start in starts):
                reached.add(end)
        return len(words) in reached


def _words(text: str) -> tuple[str, ...]:
    """In small letters; a letter written more than twice in a row is written twice ("hmmm" is "hmm")."""
    return tuple(re.sub(r"(.)\1{2,}", r"\1\1", word) for word in re.findall(r"[^\W_]+", text.lower()))
