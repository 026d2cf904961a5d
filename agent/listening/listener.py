"""Listening: packets in; speech starts, partial transcripts and finished utterances out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np

from agent.asr.protocol import Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleTimes
from agent.engines import Engines
from agent.listening.end_of_turn import EndOfTurn
from agent.listening.endpoint import Endpoint, Kind, SilenceAsked, SpeechEnded, SpeechStarted
from agent.listening.endpoint_trail import EndpointTrail, Moment
from agent.listening.events import Failed, Finished, Heard, Lasts, ListenEvent, Started
from agent.listening.question import Question, ask, record
from agent.listening.recognition import Recognition
from agent.listening.utterance import Utterance
from agent.settings import Settings
from agent.worker import Job
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage

LEAD_IN_S = 0.32  # audio before the VAD's speech start that belongs to the first word


class Listener:
    """Follows the user. `open_turn(speech_start_ns)` makes the turn that an utterance is recorded on;
    `true_speech_end(sample)` gives the last voiced sample where it is known better than the VAD's estimate, which it
    is given."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        capture: SampleTimes,
        engines: Engines,
        open_turn: Callable[[int], Turn],
        true_speech_end: Callable[[int], int | None] = lambda _: None,
    ):
        self._settings = settings
        self._clock = clock
        self._capture = capture
        self._engines = engines
        self._open_turn = open_turn
        self._true_speech_end = true_speech_end
        self._vad = engines.vad.open()
        self._endpoint = Endpoint(settings.endpoint)
        self._recognition = Recognition()
        self._recent = np.zeros(0, np.float32)
        self._utterance: Utterance | None = None
        self._opened: Turn | None = None
        self._failing = False
        self._changed: tuple[Engines, Settings] | None = None
        self._events: asyncio.Queue[ListenEvent | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, packets: AsyncIterator[Packet]) -> AsyncIterator[ListenEvent]:
        """Read the packets to their end and yield what is heard, as it is heard."""
        reader = asyncio.create_task(self._read(packets))
        reader.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
            await reader
        finally:
            self._recognition.no_more(self._clock.now_ns())
            for task in (reader, *self._tasks):
                task.cancel()

    async def finalize(self, utterance: Utterance) -> tuple[Transcript, int]:
        """The final transcript and the index of its step on the turn."""
        return await self._recognition.finalize(utterance)

    async def _read(self, packets: AsyncIterator[Packet]) -> None:
        first = True
        async for packet in packets:
            if first:
                self._vad.reset(packet.start_sample)
                first = False
            try:
                self._hear(packet)
            except Exception as error:
                self._start_over(packet, error)
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _start_over(self, packet: Packet, error: Exception) -> None:
        """Listening itself failed: the turn that was open ends with the error, and the next packet is heard afresh."""
        turn, self._opened, self._utterance = self._opened, None, None
        self._endpoint = Endpoint(self._settings.endpoint)
        self._vad.reset(packet.end_sample)
        if turn is not None or not self._failing:
            self._events.put_nowait(Failed(Stage.VAD, error, turn))
        self._failing = True

    def _hear(self, packet: Packet) -> None:
        self._recent = np.concatenate([self._recent, packet.samples])[-CAPTURE_RATE_HZ:]
        self._recognition.hear(packet.samples, self._capture.ns_of(packet.end_sample))
        if self._utterance is not None:
            self._utterance.append(packet.samples)
        started_ns = self._clock.now_ns()
        frames = self._vad.push(packet.samples)
        moment = Moment(packet, self._capture.ns_of(packet.end_sample), started_ns, self._clock.now_ns())
        for frame in frames:
            for event in self._endpoint.push(frame):
                match event:
                    case SpeechStarted():
                        self._open(event, moment)
                    case SilenceAsked():
                        self._ask(event, moment)
                    case SpeechEnded():
                        self._end(event, moment)
        self._tell_length(moment.arrived_ns)
        self._step_if_due()
        self._failing = False

    def change(self, engines: Engines, settings: Settings) -> None:
        """From the next utterance on; one that is being heard or finalised keeps what it was begun with."""
        self._changed = engines, settings

    def _open(self, event: SpeechStarted, moment: Moment) -> None:
        if self._changed is not None:
            (self._engines, self._settings), self._changed = self._changed, None
            self._endpoint.follow(self._settings.endpoint)
        turn = self._opened = self._open_turn(self._capture.ns_of(event.sample))
        packet_end = moment.packet.end_sample
        lead_in_start = max(0, event.sample - round(LEAD_IN_S * CAPTURE_RATE_HZ))
        start = max(lead_in_start, packet_end - len(self._recent))
        trail = EndpointTrail(
            turn, self._capture, EndOfTurn(self._settings.endpoint), lambda sample: self._speech_end(sample)[0]
        )
        utterance = Utterance(turn, self._engines, self._settings, self._engines.asr.open(), trail, start)
        utterance.append(self._recent[len(self._recent) - (packet_end - start) :])
        self._recognition.begin(utterance)
        self._utterance = utterance
        self._events.put_nowait(Started(turn, moment.arrived_ns))

    def _tell_length(self, heard_ns: int) -> None:
        if self._utterance is not None:
            turn, voiced_ns = self._utterance.turn, self._capture.ns_of(self._endpoint.last_voiced_sample)
            lasted_s, silence_s = seconds(voiced_ns - turn.speech_start_ns), seconds(heard_ns - voiced_ns)
            self._events.put_nowait(Lasts(turn, lasted_s, silence_s, heard_ns))

    def _step_if_due(self) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        job = self._recognition.step_if_due(utterance, self._endpoint.last_voiced_sample)
        if job is not None:
            self._spawn(Stage.ASR_PARTIAL, self._await_partial(utterance, job))

    async def _await_partial(self, utterance: Utterance, job: Job[Transcript], cause: int | None = None) -> None:
        text = await self._recognition.partial(utterance, job, cause)
        if text is None or self._utterance is not utterance:
            return
        last_voiced = self._endpoint.last_voiced_sample
        decision = self._endpoint.reread(utterance.text_end(last_voiced))
        if decision is not None:
            utterance.trail.decided(last_voiced, decision, self._clock.now_ns())
        self._events.put_nowait(Heard(utterance.turn, text))

    def _ask(self, asked: SilenceAsked, moment: Moment) -> None:
        if self._utterance is not None and (question := ask(self._utterance, asked, moment, self._clock)):
            self._spawn(Stage.SMART_TURN, self._await_answer(self._utterance, question))

    async def _await_answer(self, utterance: Utterance, question: Question) -> None:
        answer = await question.job.result()
        decided_ns, last_voiced = self._clock.now_ns(), question.asked.last_voiced_sample
        if self._utterance is not utterance:
            return
        decision = self._endpoint.answered(question.asked, answer.probability, utterance.text_end(last_voiced))
        step = record(utterance, question, answer, decision)
        if decision is None:
            return
        utterance.trail.decided(last_voiced, decision, decided_ns)
        if decision.is_over:
            self._finish(utterance, last_voiced, question.moment, "smart_turn", step, decided_ns)
        else:
            self._read_on(utterance, last_voiced, step)

    def _read_on(self, utterance: Utterance, last_voiced_sample: int, cause: int) -> None:
        """The turn may go on: what was said before the silence counts, so it is to be known."""
        job = self._recognition.step_in_pause(utterance, last_voiced_sample)
        if job is not None:
            self._spawn(Stage.ASR_PARTIAL, self._await_partial(utterance, job, cause))

    def _end(self, event: SpeechEnded, moment: Moment) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        judged = utterance.trail.waited(event, moment, event.kind)
        self._finish(utterance, event.last_voiced_sample, moment, event.kind, judged, moment.judged_ns)

    def _speech_end(self, last_voiced_sample: int) -> tuple[int, bool]:
        """S in monotonic ns, and whether it is the VAD's estimate."""
        known = self._true_speech_end(last_voiced_sample)
        return self._capture.ns_of(last_voiced_sample if known is None else known), known is None

    def _finish(
        self, utterance: Utterance, last_voiced_sample: int, moment: Moment, kind: Kind, cause: int, decided_ns: int
    ) -> None:
        utterance.trail.ended(last_voiced_sample, kind, moment.arrived_ns, decided_ns)
        utterance.turn.speech_end_ns, utterance.turn.speech_end_estimated = self._speech_end(last_voiced_sample)
        utterance.last_voiced_sample = last_voiced_sample
        utterance.decision_step, utterance.decided_ns = cause, decided_ns
        self._recognition.end(utterance)
        self._utterance = self._opened = None
        self._events.put_nowait(Finished(utterance))

    def _spawn(self, stage: Stage, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                self._events.put_nowait(Failed(stage, error))

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
