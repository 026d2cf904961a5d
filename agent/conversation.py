"""The turn loop: listen, think, speak. The user may interrupt; the history holds what was really heard."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from agent.answer import Answer
from agent.apology import Apologies
from agent.asr.protocol import Transcript
from agent.audio.output_track import OutputTrack
from agent.audio.playout import Playback
from agent.audio.sample_clock import Packet, SampleTimes
from agent.audio.start_buffer import StartBuffer
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
from agent.floor import Floor
from agent.listening.listener import Failed, Finished, Heard, Lasts, Listener, Started
from agent.llm.history import new_history
from agent.llm.protocol import Message
from agent.settings import Settings
from agent.speaking import Speaking
from agent.thinking import Thinking
from agent.watch import STOP_S
from agent.worker import once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage


class Conversation:
    """One user, one agent. `observe` is called with every Event, on the event loop.

    `true_speech_end(sample)` gives the last voiced sample where a scenario knows it better than the VAD, whose
    estimate it is given. After an `earlier` one, which has ended, the same conversation goes on: its id, its history,
    the numbers of its turns.
    """

    def __init__(
        self,
        engines: Engines,
        settings: Settings,
        clock: Clock,
        capture: SampleTimes,
        track: OutputTrack,
        observe: Callable[[Event], None],
        true_speech_end: Callable[[int], int | None] = lambda _: None,
        earlier: "Conversation | None" = None,
    ):
        self.id = earlier.id if earlier else str(uuid.uuid4())
        self._engines = engines
        self._settings = settings
        self._clock = clock
        self._track = track
        self._observe = observe
        self._history = earlier._history if earlier else new_history(settings.llm)
        self._buffer = earlier._buffer if earlier else StartBuffer()
        self._apologies = Apologies(clock, track)
        self._turns = earlier._turns if earlier else 0
        self._open: dict[int, Turn] = {}
        self._floor = Floor()
        self._decided: asyncio.Event | None = None  # by the utterance that ended last
        self._answers: set[Answer] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._observer_failed: Exception | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._listener = Listener(settings, clock, capture, engines, self._open_turn, true_speech_end)

    @property
    def history(self) -> Sequence[Message]:
        return self._history.messages()

    def change(self, engines: Engines, settings: Settings) -> None:
        """From the next turn that opens on; one that is open or being answered keeps what it began with. The voice must
        have the same sample rate. The history goes on."""
        self._listener.change(engines, settings)

    async def run(self, packets: AsyncIterator[Packet]) -> None:
        """Hold the conversation until the packets end and the last reply has been heard; the first packet is asked for
        when the engines are ready. Every turn that was opened is closed, however it ends. Raises what `observe`
        raised."""
        try:
            await self._forget_earlier()
            async for event in self._listener.listen(packets):
                match event:
                    case Started(turn, heard_ns):
                        self._hear(turn, heard_ns)
                        self._tell(TurnOpened(turn))
                    case Lasts(turn, speech_s, silence_s, heard_ns):
                        self._floor.lasts(turn, speech_s, silence_s, heard_ns)
                    case Heard(turn, text):
                        self._floor.recognised(turn, text)
                        self._tell(PartialTranscript(turn, text))
                    case Finished(utterance):
                        self._begin(Answer(utterance))
                    case Failed(stage, error, turn):
                        self._tell(ListeningFailed(stage, error))
                        if turn is not None:
                            self._start(self._apologise_after(self._decided, turn, error))
                if self._observer_failed:
                    raise self._observer_failed
            self._heed_no_more()
            while self._tasks:
                done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            await self._stop()
        if self._observer_failed:
            raise self._observer_failed

    async def _forget_earlier(self) -> None:
        """Bring the KV cache back to what this conversation begins with: words that another one left there, if they
        came again, would cost a turn no prefill."""
        job = self._engines.workers.llm.submit(
            "llm.prefill",
            once(lambda should_stop: self._engines.llm.prefill(self.history, should_stop=should_stop)),
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

    def _hear(self, turn: Turn, heard_ns: int) -> None:
        """The user makes a sound."""
        if self._floor.reply is None:
            self._stop_keeping()
        self._apologies.stop()
        self._floor.begins(turn, self._settings.barge_in, heard_ns)

    def _heed_no_more(self) -> None:
        """No more packets come: an utterance that has not ended will not, and does not hold up the reply."""
        finished = {answer.turn.index for answer in self._answers}
        for turn in list(self._open.values()):
            if turn.index not in finished:
                self._floor.over(turn)

    def _begin(self, answer: Answer) -> None:
        self._answers.add(answer)
        answer.task = self._start(self._take_up(answer, self._decided))
        self._decided = answer.decided

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        _ = task.cancelled() or task.exception()  # its turn has told it

    def _stop_keeping(self) -> None:
        if self._keeping:
            self._keeping.cancel()

    async def _stop(self) -> None:
        """End what is still going on so that it can be read, within a bound."""
        self._stop_keeping()
        self._apologies.stop()
        for answer in self._answers:
            answer.stop(EndReason.STOPPED)
        if tasks := list(self._tasks):
            await asyncio.wait(tasks, timeout=STOP_S)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_S)
        for turn in list(self._open.values()):
            self._close_unanswered(turn, EndReason.STOPPED)

    async def _take_up(self, answer: Answer, before: asyncio.Event | None) -> None:
        """An utterance has ended: once its words are known it is answered, or the reply at hand goes on."""
        transcript, error = "", None
        try:
            try:
                transcript = await self._words(answer, before)
                if answer.thinking and answer.goes_on:
                    await self._reply(answer, answer.thinking)
            except* Exception as failures:
                answer.stop(EndReason.ERROR)
                error = failures.exceptions[0]
            except* BaseException:
                answer.stop(EndReason.STOPPED)
                raise
            if answer.end_reason is EndReason.ERROR:
                await self._apologise(answer.turn)
        finally:
            self._close(answer, transcript, error)

    async def _apologise_after(self, before: asyncio.Event | None, turn: Turn, error: Exception) -> None:
        """For a turn that failed while the user spoke."""
        try:
            if before is not None:
                await before.wait()
            await self._apologise(turn)
        finally:
            self._floor.over(turn)
            self._close_unanswered(turn, EndReason.ERROR, error)

    async def _apologise(self, turn: Turn) -> None:
        """The user is asked to say it again, in place of a reply that goes on."""
        reply = self._floor.reply
        if reply is not None and reply.turn is not turn:
            if reply.goes_on:
                reply.interrupt(self._clock.now_ns(), "a sound that could not be recognised")
            await reply.ended()
        await self._apologies.say(self._engines.apology, turn)

    async def _words(self, answer: Answer, before: asyncio.Event | None) -> str:
        """What was said. It is put to the language model (`answer.thinking`), unless it needs no answer."""
        try:
            final, step = await self._final(answer)
            if before is not None:
                await before.wait()
            received_ns = self._clock.now_ns()
            if ends := self._floor.decide(answer.turn, final.text):
                answer.end_reason = answer.end_reason or ends
                return final.text
            replaced, self._floor.reply = self._floor.reply, answer
        finally:
            answer.decided.set()
        self._stop_keeping()
        if replaced is not None and replaced in self._answers:
            await replaced.ended()
            received_ns = self._clock.now_ns()
            step = answer.turn.add(
                Stage.HOST,
                received_ns,
                received_ns,
                [step],
                waited_for="the reply before",
                attributes={v.WHAT: "history"},
            )
        self._ask(answer, final.text, step, received_ns)
        return final.text

    async def _final(self, answer: Answer) -> tuple[Transcript, int]:
        """The final transcript and its step. A reply that the user holds up does not wait for it longer than for more
        speech."""
        turn, false_after_s = answer.turn, self._settings.barge_in.false_after_s
        left_s = false_after_s - seconds(self._clock.now_ns() - (turn.speech_end_ns or 0))
        timer = asyncio.get_running_loop().call_later(left_s, self._floor.silent_for, turn, false_after_s)
        try:
            return await self._listener.finalize(answer.utterance)
        finally:
            timer.cancel()

    def _ask(self, answer: Answer, text: str, step: int, received_ns: int) -> None:
        self._history.add_user(text)
        answer.asked = True
        engines, settings = answer.utterance.engines, answer.utterance.settings.llm
        if dropped := self._history.make_room(engines.llm, settings):
            self._tell(HistoryTrimmed(answer.turn, dropped))
        self._tell(UserSaid(answer.turn, text))
        answer.thinking = Thinking(answer.turn, engines, settings, self._clock, cause=step, received_ns=received_ns)
        self._floor.follow()

    async def _reply(self, answer: Answer, thinking: Thinking) -> None:
        turn = answer.turn
        answer.speaking = speaking = Speaking(
            turn,
            answer.utterance.engines,
            self._clock,
            Playback(self._clock, self._track, self._buffer),
            self._buffer,
            self._settings.language,
            on_phrase=lambda text: self._tell(AgentSays(turn, text)),
            on_first_audio=lambda at_ns: self._tell(ReplyAudible(turn, at_ns)),
        )
        self._floor.follow()
        messages = self._history.messages()
        self._keeping = asyncio.create_task(_keep(thinking, messages, speaking.made))
        await speaking.say(thinking.phrases(messages))

    def _close(self, answer: Answer, transcript: str, error: Exception | None) -> None:
        turn, speaking = answer.turn, answer.speaking
        heard = speaking.heard() if speaking else ""
        reply = answer.thinking.text if answer.thinking else ""
        if speaking:
            speaking.record_playout()
        self._history.add_reply(heard)
        if answer.asked and answer.end_reason is EndReason.ERROR:
            self._history.drop_unanswered()
        turn.attributes[v.TURN_HEARD_WORDS] = len(heard.split())
        turn.attributes[v.TURN_REPLY_WORDS] = len(reply.split())
        self._answers.discard(answer)
        if self._floor.reply is answer:
            self._floor.reply = None
        self._floor.over(turn)
        self._end(turn, answer.end_reason or EndReason.COMPLETED, error)
        self._tell(TurnEnded(turn, transcript, reply, heard, error))

    def _close_unanswered(self, turn: Turn, reason: EndReason, error: Exception | None = None) -> None:
        self._end(turn, reason, error)
        self._tell(TurnEnded(turn, "", "", "", error))

    def _end(self, turn: Turn, reason: EndReason, error: Exception | None) -> None:
        turn.end_reason = reason
        turn.end_ns = max([self._clock.now_ns(), *(step.end_ns for step in turn.steps)])  # its last sound may yet leave
        self._open.pop(turn.index, None)
        if error is not None:
            told = isinstance(error, TurnscopeError) or self._settings.capture_content  # others may quote what was said
            turn.attributes[v.TURN_ERROR] = f"{type(error).__name__}: {error}" if told else type(error).__name__


async def _keep(thinking: Thinking, messages: Sequence[Message], made: asyncio.Event) -> None:
    """Once all sound has been made and only plays, nothing of this turn is delayed by it."""
    await made.wait()
    await thinking.keep(messages)
