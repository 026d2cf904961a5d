"""Speaking: phrases become patches of audio, patches are played, and every step goes on the turn's timeline."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from agent.audio.playout import Playback, StartBuffer
from agent.engines import Engines
from agent.loops import add_loop, by_part
from agent.thinking import ThoughtPhrase
from agent.tts.phrases import Phrase
from agent.tts.protocol import Patch, Setup
from agent.tts.speakable import speakable
from agent.worker import Job
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import Stage


@dataclass
class _Voiced:
    """A phrase that has been given to the voice, and where its words end in its audio."""

    phrase: Phrase
    word_ends: tuple[float, ...] = ()
    audio_s: float | None = None


@dataclass
class Speaking:
    """One reply's voice. `on_first_audio(at_ns)` is called once, as soon as it is known when the reply becomes
    audible; `made` is set when all sound of the reply has been made."""

    turn: Turn
    engines: Engines
    clock: Clock
    playback: Playback
    buffer: StartBuffer
    language: str
    on_phrase: Callable[[str], None]
    on_first_audio: Callable[[int], None]
    made: asyncio.Event = field(default_factory=asyncio.Event)
    _job: Job[Setup | Patch] | None = None
    _voiced: list[_Voiced] = field(default_factory=list[_Voiced])
    _first_patch: tuple[int, int] | None = None  # its step, and when the event loop got it
    _free_ns: int = 0
    _announced: bool = False

    def stop(self) -> None:
        """Fall silent now; the voice stops at its next check."""
        self.playback.stop()
        if self._job is not None:
            self._job.cancel()

    async def run(self, phrases: AsyncIterator[ThoughtPhrase]) -> None:
        """Speak the phrases as they come and wait until all has been heard, or `stop`. Raises what the voice raises."""
        async for due in phrases:
            if not self.playback.stopped:
                await self._speak(due)
        self.playback.finish()
        self._announce()
        self.made.set()
        await self.playback.played()

    def heard(self) -> str:
        """The reply's text as far as it has been played, whole words only."""
        heard = ""
        for voiced in self._voiced:
            fraction = self.playback.heard(voiced.phrase.index, voiced.audio_s)
            silent = fraction is None and self.playback.written_s(voiced.phrase.index) == 0
            if self.playback.is_complete(voiced.phrase.index) and (silent or (fraction or 0) >= 1.0):
                heard += voiced.phrase.text
                continue
            if fraction is None:
                return heard
            played = sum(end <= fraction for end in voiced.word_ends)
            return heard + leading_words(voiced.phrase.text, played / max(1, len(voiced.word_ends)))
        return heard

    async def _speak(self, due: ThoughtPhrase) -> None:
        number = due.phrase.index
        text = speakable(due.phrase.text, self.language)
        self._job = job = self.engines.workers.tts.submit(
            "tts.synthesise", lambda should_stop: self.engines.tts.synthesise(text, should_stop)
        )
        self.on_phrase(due.phrase.text)
        cause = self.turn.add(
            Stage.HOST,
            max(due.received_ns, self._free_ns),
            job.submitted_ns,
            [due.step],
            waited_for="tts.synthesise" if self._free_ns > due.received_ns else None,
            phrase=number,
            attributes={v.WHAT: "speakable text"},
        )
        voiced = _Voiced(due.phrase)
        self._voiced.append(voiced)
        patches: list[Patch] = []
        first_patch: int | None = None
        try:
            async for item in job:
                received_ns = self.clock.now_ns()
                if isinstance(item, Setup):
                    voiced.word_ends, voiced.audio_s = item.word_ends, item.audio_s
                    cause = self._record_setup(item, job, cause, number)
                    continue
                self.buffer.observe(seconds(item.end_ns - item.start_ns))
                if first_patch is None:
                    first_patch = self._record_patches(Stage.TTS_FIRST_PATCH, [item], cause, number)
                    self._first_patch = self._first_patch or (first_patch, received_ns)
                patches.append(item)
                self.playback.write(number, item.samples)
                self._announce()
            if not job.cancelled:
                self.playback.end_phrase(number)
        except Exception as error:
            self.turn.describe(v.TTS, {v.ERROR_TYPE: type(error).__name__}, phrase=number)
            raise
        finally:
            self._describe_phrase(number, first_patch, patches)
            self._free_ns = self.clock.now_ns()

    def _describe_phrase(self, number: int, first_patch: int | None, patches: Sequence[Patch]) -> None:
        if patches[1:]:
            self._record_patches(Stage.TTS_PATCHES, patches[1:], first_patch, number)
        tts = self.engines.tts
        self.turn.describe(
            v.TTS,
            {
                v.MODEL: tts.model,
                **tts.attributes,
                v.TTS_PATCHES: len(patches),
                v.TTS_AUDIO_S: self.playback.written_s(number),
            },
            phrase=number,
        )

    def _record_patches(self, stage: Stage, patches: Sequence[Patch], cause: int | None, phrase: int) -> int:
        facts = by_part(v.TTS_PATCH_PART_NS, [patch.parts_ns for patch in patches])
        if any(patch.forwards for patch in patches):
            facts[v.TTS_FORWARDS] = [patch.forwards for patch in patches]
        intervals = [(patch.start_ns, patch.end_ns) for patch in patches]
        return add_loop(self.turn, stage, intervals, [cause], phrase, facts | {v.WORK_STEPS: len(patches)})

    def _record_setup(self, setup: Setup, job: Job[Setup | Patch], cause: int, phrase: int) -> int:
        parts: dict[str, Attribute] = {v.TTS_SETUP_PART_NS.format(part): ns for part, ns in setup.parts_ns.items()}
        return self.turn.add(
            Stage.TTS_SETUP,
            setup.start_ns,
            setup.end_ns,
            [cause],
            waited_for=job.waited_for,
            phrase=phrase,
            attributes={v.TTS_UNITS: setup.units, **parts},
        )

    def _announce(self) -> None:
        if not self._announced and self.playback.first_audio_ns is not None:
            self._announced = True
            self.on_first_audio(self.playback.first_audio_ns)

    def record_playout(self) -> None:
        """Put on the timeline what was played. Called once, after `run`."""
        playback, now_ns = self.playback, self.clock.now_ns()
        if playback.started_ns is None or self._first_patch is None:
            return
        step, received_ns = self._first_patch
        buffered = self.turn.add(
            Stage.PLAYOUT_BUFFER, received_ns, playback.started_ns, [step], attributes={v.WHAT: "start buffer"}
        )
        audible_ns = playback.first_audio_ns
        silence = self.turn.add(
            Stage.PLAYOUT_LEADING_SILENCE,
            playback.started_ns,
            max(playback.started_ns, now_ns) if audible_ns is None else audible_ns,
            [buffered],
        )
        if audible_ns is not None:
            self.turn.first_audio_ns, self.turn.first_audio_step = audible_ns, silence
            self.turn.add(Stage.PLAYOUT_PLAY, audible_ns, max(audible_ns, playback.end_ns or now_ns), [silence])
        self.turn.describe(
            v.PLAYOUT,
            {
                v.PLAYOUT_BUFFER_S: playback.needed_s,
                v.PLAYOUT_UNDERRUNS: playback.underruns,
                v.PLAYOUT_UNDERRUN_S: playback.underrun_s,
            },
        )
        if audible_ns is not None:
            self.turn.describe(v.PLAYOUT, {v.PLAYOUT_LEADING_SILENCE_S: seconds(audible_ns - playback.started_ns)})


def leading_words(text: str, fraction: float) -> str:
    """The first words of a text, as many whole ones as lie within the fraction (0 to 1) of them; the text's own
    spacing is kept."""
    words = text.split()
    count = int(len(words) * fraction + 1e-9)
    end = 0
    for word in words[:count]:
        end = text.index(word, end) + len(word)
    return text[:end]
