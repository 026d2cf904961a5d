"""Who has the floor: the reply at hand, and the user's sounds that it heeds."""

from agent.answer import Answer
from agent.barge_in import BargeIn, Wish
from agent.settings import BargeInSettings
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason


class Floor:
    """`reply` is the answer to the last words that are known, as long as it lasts. Every utterance whose words are not
    known yet is a sound that may hold it, pause it or end it."""

    def __init__(self) -> None:
        self.reply: Answer | None = None
        self._sounds: dict[int, BargeIn] = {}

    def begins(self, turn: Turn, settings: BargeInSettings, heard_ns: int) -> None:
        """The user makes a sound, which is speech as far as the voice detector can tell."""
        self._sounds[turn.index] = BargeIn(settings, heard_ns)
        self.follow()

    def lasts(self, turn: Turn, speech_s: float, silence_s: float, heard_ns: int) -> None:
        if (sound := self._sounds.get(turn.index)) is not None:
            sound.lasts(speech_s, silence_s, heard_ns)
            self.follow(sound.why)

    def silent_for(self, turn: Turn, silence_s: float) -> None:
        if (sound := self._sounds.get(turn.index)) is not None:
            sound.silent_for(silence_s)
            self.follow(sound.why)

    def recognised(self, turn: Turn, text: str) -> None:
        """What is known so far of the words."""
        if (sound := self._sounds.get(turn.index)) is not None:
            sound.recognised(text)
            self.follow(sound.why)

    def decide(self, turn: Turn, text: str) -> EndReason | None:
        """The words are known. Returns how the turn ends if they need no answer; then the reply goes on. Otherwise
        there is none any more that goes on, unless it may not be interrupted."""
        sound = self._sounds.pop(turn.index)
        sound.recognised(text, final=True)
        reply = self._going_on
        if text and not (reply and sound.is_backchannel):
            if reply and self._heeds(reply, sound):
                reply.interrupt(sound.heard_ns, sound.why)
            return None
        self.follow(sound.why)
        return EndReason.BACKCHANNEL if text else EndReason.NO_TRANSCRIPT

    def over(self, turn: Turn) -> None:
        """The sound is not to be heeded any more."""
        if (sound := self._sounds.pop(turn.index, None)) is not None:
            self.follow(sound.why)

    def follow(self, why: str = "") -> None:
        """Let the reply do what the sounds ask for; `why` says what the last of them turned out to be."""
        reply = self._going_on
        if reply is None:
            return
        sounds = [sound for sound in self._sounds.values() if self._heeds(reply, sound)]
        asking = max(sounds, key=lambda sound: sound.wish, default=None)
        if asking is not None and asking.wish is Wish.INTERRUPT:
            reply.interrupt(asking.heard_ns, asking.why)
        else:
            reply.follow(asking.wish if asking else Wish.GO_ON, why)

    @property
    def _going_on(self) -> Answer | None:
        return self.reply if self.reply is not None and self.reply.goes_on else None

    def _heeds(self, reply: Answer, sound: BargeIn) -> bool:
        return sound.enabled or not reply.audible
