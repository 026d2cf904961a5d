"""The turn loop: listen, think, speak. The user may interrupt; the history holds what was really heard."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent.audio.playout import OutputTrack, Playback, StartBuffer
from agent.audio.sample_clock import Packet, SampleClock
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import (
    AgentSays,
    Event,
    HistoryTrimmed,
    ListeningFailed,
    PartialTranscript,
    ReplyAudible,
    TurnEnded,
    TurnOpened,
    UserSaid,
)
from agent.listening.listener import Failed, Finished, Heard, Listener, Started
from agent.listening.utterance import Utterance
from agent.llm.history import new_history
from agent.llm.protocol import Message
from agent.settings import Settings
from agent.speaking import Speaking
from agent.thinking import Thinking, ThoughtPhrase
from agent.worker import once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason

STOP_S = 3.0  # how long an answer that was told to stop is waited for


@dataclass
class _Answer:
    """A turn that is being answered."""

    utterance: Utterance
    thinking: Thinking | None = None
    speaking: Speaking | None = None
    end_reason: EndReason | None = None

    @property
    def turn(self) -> Turn:
        return self.utterance.turn

    def stop(self, reason: EndReason) -> None:
        """Fall silent and stop the engines; the answer ends by itself soon after."""
        self.end_reason = self.end_reason or reason
        if self.thinking:
            self.thinking.stop()
        if self.speaking:
            self.speaking.stop()


class Conversation:
    """One user, one agent. `observe` is called with every Event, on the event loop.

    `true_speech_end(sample)` gives the last voiced sample where a scenario knows it better than the VAD, whose
    estimate it is given.
    """

    def __init__(
        self,
        engines: Engines,
        settings: Settings,
        clock: Clock,
        capture: SampleClock,
        track: OutputTrack,
        observe: Callable[[Event], None],
        true_speech_end: Callable[[int], int | None] = lambda _: None,
    ):
        self.id = str(uuid.uuid4())
        self._engines = engines
        self._settings = settings
        self._clock = clock
        self._track = track
        self._observe = observe
        self._history = new_history(settings.llm)
        self._buffer = StartBuffer()
        self._turns = 0
        self._open: dict[int, Turn] = {}
        self._answer: _Answer | None = None
        self._observer_failed: Exception | None = None
        self._answering: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._listener = Listener(settings, clock, capture, engines, self._open_turn, true_speech_end)

    @property
    def history(self) -> Sequence[Message]:
        return self._history.messages()

    async def run(self, packets: AsyncIterator[Packet]) -> None:
        """Hold the conversation until the packets end and the last reply has been heard; the first packet is asked for
        when the engines are ready. Every turn that was opened is closed, however it ends. Raises what `observe`
        raised."""
        try:
            await self._forget_earlier()
            async for event in self._listener.listen(packets):
                match event:
                    case Started(turn, heard_ns):
                        self._interrupt(heard_ns)
                        self._tell(TurnOpened(turn))
                    case Heard(turn, text):
                        self._tell(PartialTranscript(turn, text))
                    case Finished(utterance):
                        self._answer = _Answer(utterance)
                        self._answering = asyncio.create_task(self._answer_after(self._answering, self._answer))
                    case Failed(stage, error, turn):
                        self._tell(ListeningFailed(stage, error))
                        if turn is not None:
                            self._close_unanswered(turn, EndReason.ERROR, error)
                if self._observer_failed:
                    raise self._observer_failed
            if self._answering:
                await asyncio.wait([self._answering])
                self._answering.result()
        finally:
            await self._stop()
        if self._observer_failed:
            raise self._observer_failed

    async def _forget_earlier(self) -> None:
        """Bring the KV cache back to what every conversation begins with: words that an earlier one left there, if they
        came again, would cost a turn no prefill."""
        job = self._engines.workers.llm.submit(
            "llm.prefill",
            once(lambda should_stop: self._engines.llm.prefill(self._history.opening(), should_stop=should_stop)),
        )
        try:
            with suppress(Exception):  # the first prompt meets what is wrong with the engine, and its turn tells it
                await job.result()
        finally:
            job.cancel()

    def _tell(self, event: Event) -> None:
        """Whoever watches may fail (a full disk); that is no engine's failure, and the turn at hand still ends in
        order."""
        try:
            self._observe(event)
        except Exception as error:
            self._observer_failed = self._observer_failed or error

    def _open_turn(self, speech_start_ns: int) -> Turn:
        self._turns += 1
        turn = self._open[self._turns] = Turn(self.id, self._turns, speech_start_ns)
        return turn

    def _interrupt(self, heard_ns: int) -> None:
        """The user speaks: a reply that is being heard is interrupted; one that is not yet heard answered half a
        sentence."""
        self._stop_keeping()
        answer = self._answer
        if answer is None or answer.end_reason is not None:
            return
        now_ns = self._clock.now_ns()
        playback = answer.speaking.playback if answer.speaking else None
        audible = playback is not None and playback.first_audio_ns is not None and playback.first_audio_ns < now_ns
        answer.stop(EndReason.INTERRUPTED if audible else EndReason.CUT_OFF)
        if playback is not None and playback.end_ns is not None:
            answer.turn.attributes[v.TURN_BARGE_IN_STOP_S] = max(0.0, seconds(playback.end_ns - heard_ns))

    def _stop_keeping(self) -> None:
        if self._keeping:
            self._keeping.cancel()

    async def _stop(self) -> None:
        """End what is still going on so that it can be read, within a bound."""
        self._stop_keeping()
        if self._answer:
            self._answer.stop(EndReason.STOPPED)
        if self._answering and not self._answering.done():
            await asyncio.wait([self._answering], timeout=STOP_S)
            self._answering.cancel()
            await asyncio.wait([self._answering], timeout=STOP_S)
        for turn in list(self._open.values()):
            self._close_unanswered(turn, EndReason.STOPPED)

    async def _answer_after(self, previous: asyncio.Task[None] | None, answer: _Answer) -> None:
        if previous and not previous.done():
            answer.utterance.waited_for = "the reply before"
            await asyncio.wait([previous], timeout=STOP_S)
            previous.cancel()
            previous.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its turn has told it
            answer.utterance.decided_ns = self._clock.now_ns()
        transcript, error = "", None
        try:
            transcript = await self._transcribe(answer)
            if transcript and answer.end_reason is None:
                await self._reply(answer)
        except* Exception as failures:
            answer.stop(EndReason.ERROR)
            error = failures.exceptions[0]
        except* BaseException:
            answer.stop(EndReason.STOPPED)
            raise
        finally:
            self._close(answer, transcript, error)

    async def _transcribe(self, answer: _Answer) -> str:
        final, step = await self._listener.finalize(answer.utterance)
        received_ns = self._clock.now_ns()
        if not final.text:
            answer.end_reason = answer.end_reason or EndReason.NO_TRANSCRIPT
            return ""
        self._history.add_user(final.text)
        if dropped := self._history.make_room(self._engines.llm, self._settings.llm):
            self._tell(HistoryTrimmed(answer.turn, dropped))
        self._tell(UserSaid(answer.turn, final.text))
        answer.thinking = Thinking(
            answer.turn, self._engines, self._settings.llm, self._clock, cause=step, received_ns=received_ns
        )
        return final.text

    async def _reply(self, answer: _Answer) -> None:
        turn, thinking = answer.turn, answer.thinking
        assert thinking is not None
        answer.speaking = speaking = Speaking(
            turn,
            self._engines,
            self._clock,
            Playback(self._clock, self._track, self._buffer),
            self._buffer,
            self._settings.language,
            on_phrase=lambda text: self._tell(AgentSays(turn, text)),
            on_first_audio=lambda at_ns: self._tell(ReplyAudible(turn, at_ns)),
        )
        phrases: asyncio.Queue[ThoughtPhrase | None] = asyncio.Queue()
        messages = self._history.messages()
        self._keeping = asyncio.create_task(_keep(thinking, messages, speaking.made))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pass_on(thinking, messages, phrases))
            tasks.create_task(speaking.run(_until_none(phrases)))

    def _close(self, answer: _Answer, transcript: str, error: Exception | None) -> None:
        turn, speaking = answer.turn, answer.speaking
        heard = speaking.heard() if speaking else ""
        reply = answer.thinking.text if answer.thinking else ""
        if speaking:
            speaking.record_playout()
        self._history.add_reply(heard)
        if answer.end_reason is EndReason.ERROR:
            self._history.drop_unanswered()
        turn.attributes[v.TURN_HEARD_WORDS] = len(heard.split())
        turn.attributes[v.TURN_REPLY_WORDS] = len(reply.split())
        if self._answer is answer:
            self._answer = None
        self._end(turn, answer.end_reason or EndReason.COMPLETED, error)
        self._tell(TurnEnded(turn, transcript, reply, heard, error))

    def _close_unanswered(self, turn: Turn, reason: EndReason, error: Exception | None = None) -> None:
        self._end(turn, reason, error)
        self._tell(TurnEnded(turn, "", "", "", error))

    def _end(self, turn: Turn, reason: EndReason, error: Exception | None) -> None:
        turn.end_reason, turn.end_ns = reason, self._clock.now_ns()
        self._open.pop(turn.index, None)
        if error is not None:
            told = isinstance(error, TurnscopeError) or self._settings.capture_content  # others may quote what was said
            turn.attributes[v.TURN_ERROR] = f"{type(error).__name__}: {error}" if told else type(error).__name__


async def _pass_on(thinking: Thinking, messages: Sequence[Message], to: "asyncio.Queue[ThoughtPhrase | None]") -> None:
    async for phrase in thinking.phrases(messages):
        to.put_nowait(phrase)
    to.put_nowait(None)


async def _keep(thinking: Thinking, messages: Sequence[Message], made: asyncio.Event) -> None:
    """Once all sound has been made and only plays, nothing of this turn is delayed by it."""
    await made.wait()
    await thinking.keep(messages)


async def _until_none(queue: "asyncio.Queue[ThoughtPhrase | None]") -> AsyncIterator[ThoughtPhrase]:
    while (item := await queue.get()) is not None:
        yield item
