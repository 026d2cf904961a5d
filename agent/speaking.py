"""Speaking: phrases become patches of audio, patches are played, and every step goes on the turn's timeline."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from agent.audio.playout import Playback
from agent.audio.start_buffer import StartBuffer
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
    """One reply's voice. `on_first_audio(at_ns)` is called as soon as it is known when the reply becomes audible, and
    again if it was held back before it was; `made` is set when all sound of the reply has been made."""

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

    def pause(self) -> None:
        """Fall silent, or do not begin, until `resume`; the voice works on."""
        self.playback.pause()
        self._announced = self._announced and self.playback.first_audio_ns is not None

    def resume(self, why: str) -> None:
        """Go on where the reply stopped; `why` says what the user's sound turned out to be."""
        self.playback.resume(why)
        self._announce()

    def stop(self, why: str = "") -> None:
        """Fall silent now; the voice stops at its next check."""
        self.playback.stop(why)
        if self._job is not None:
            self._job.cancel()

    async def say(self, phrases: AsyncIterator[ThoughtPhrase]) -> None:
        """Speak the phrases while the next ones are thought, and wait until all has been heard, or `stop`. Raises what
        thinking or the voice raises, in an exception group."""
        due: asyncio.Queue[ThoughtPhrase | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pass_on(phrases, due))
            tasks.create_task(self._speak_all(due))

    async def _speak_all(self, due: "asyncio.Queue[ThoughtPhrase | None]") -> None:
        while (thought := await due.get()) is not None:
            if not self.playback.stopped:
                await self._speak(thought)
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
        pauses: dict[str, Attribute] = {v.PLAYOUT_PAUSES: len(playback.pauses), v.PLAYOUT_PAUSED_S: playback.paused_s}
        if playback.started_ns is None or self._first_patch is None:
            if playback.pauses:
                self.turn.describe(v.PLAYOUT, pauses)
            return
        step, received_ns = self._first_patch
        started_ns, audible_ns = max(received_ns, playback.started_ns), playback.first_audio_ns
        buffered = self._record_around_pauses(Stage.PLAYOUT_BUFFER, received_ns, started_ns, step)
        silent_to_ns = max(started_ns, now_ns if audible_ns is None else audible_ns)
        silence = self._record_around_pauses(Stage.PLAYOUT_LEADING_SILENCE, started_ns, silent_to_ns, buffered)
        if audible_ns is not None:
            self.turn.first_audio_ns, self.turn.first_audio_step = silent_to_ns, silence
            played_to_ns = max(silent_to_ns, playback.end_ns or now_ns, *(p.end_ns or 0 for p in playback.pauses))
            self._record_around_pauses(Stage.PLAYOUT_PLAY, silent_to_ns, played_to_ns, silence)
        self.turn.describe(
            v.PLAYOUT,
            {
                v.PLAYOUT_BUFFER_S: playback.needed_s,
                v.PLAYOUT_UNDERRUNS: playback.underruns,
                v.PLAYOUT_UNDERRUN_S: playback.underrun_s,
                **pauses,
            },
        )
        if audible_ns is not None:
            silent_ns = sum(s.duration_ns for s in self.turn.steps if s.stage is Stage.PLAYOUT_LEADING_SILENCE)
            self.turn.describe(v.PLAYOUT, {v.PLAYOUT_LEADING_SILENCE_S: seconds(silent_ns)})

    def _record_around_pauses(self, stage: Stage, start_ns: int, end_ns: int, cause: int) -> int:
        """Add a step of the stage, in pieces where the user held the reply back; returns the last one's index."""
        what: dict[str, Attribute] | None = {v.WHAT: "start buffer"} if stage is Stage.PLAYOUT_BUFFER else None
        at_ns = start_ns
        for pause in self.playback.pauses:
            held_ns, on_ns = max(at_ns, pause.start_ns), min(end_ns, pause.end_ns or end_ns)
            if held_ns < on_ns:
                cause = self.turn.add(stage, at_ns, held_ns, [cause], attributes=what)
                cause = self.turn.add(Stage.PLAYOUT_HOLD, held_ns, on_ns, [cause], attributes={v.WHAT: pause.why})
                at_ns = on_ns
        if at_ns == start_ns or at_ns < end_ns:
            cause = self.turn.add(stage, at_ns, end_ns, [cause], attributes=what)
        return cause


async def _pass_on(phrases: AsyncIterator[ThoughtPhrase], to: "asyncio.Queue[ThoughtPhrase | None]") -> None:
    async for phrase in phrases:
        to.put_nowait(phrase)
    to.put_nowait(None)


def leading_words(text: str, fraction: float) -> str:
    """The first words of a text, as many whole ones as lie within the fraction (0 to 1) of them; the text's own
    spacing is kept."""
    words = text.split()
    count = int(len(words) * fraction + 1e-9)
    end = 0
    for word in words[:count]:
        end = text.index(word, end) + len(word)
    return text[:end]
