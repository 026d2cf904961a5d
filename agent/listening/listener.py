"""Listening: packets in; speech starts, partial transcripts and finished utterances out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.asr.protocol import Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleClock
from agent.engines import Engines
from agent.listening.endpoint import Endpoint, SilenceAsked, SpeechEnded, SpeechStarted
from agent.listening.recognition import Recognition
from agent.listening.smart_turn import HEARD_S
from agent.listening.utterance import Utterance
from agent.settings import Settings
from agent.worker import Job, once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage

LEAD_IN_S = 0.32  # audio before the VAD's speech start that belongs to the first word


@dataclass(frozen=True)
class Started:
    """The user speaks. `heard_ns` is when the packet arrived in which speech had lasted long enough."""

    turn: Turn
    heard_ns: int


@dataclass(frozen=True)
class Heard:
    """A partial transcript of the utterance that is being spoken."""

    turn: Turn
    text: str


@dataclass(frozen=True)
class Finished:
    """The utterance is over; it is to be finalised and answered."""

    utterance: Utterance


@dataclass(frozen=True)
class Failed:
    """A listening engine failed while the user spoke; listening goes on. `turn` is the one that cannot go on, if
    any."""

    stage: Stage
    error: Exception
    turn: Turn | None = None


ListenEvent = Started | Heard | Finished | Failed


@dataclass(frozen=True)
class _Moment:
    """A packet: when it arrived by the capture's clock, when the VAD took it up, and when that had judged it."""

    packet: Packet
    arrived_ns: int
    started_ns: int
    judged_ns: int


@dataclass(frozen=True)
class _Verdict:
    probability: float
    start_ns: int
    end_ns: int


class Listener:
    """Follows the user. `open_turn(speech_start_ns)` makes the turn that an utterance is recorded on;
    `true_speech_end(sample)` gives the last voiced sample where it is known better than the VAD's estimate, which it
    is given."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        capture: SampleClock,
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
        self._endpoint = Endpoint(settings.endpoint)
        self._recognition = Recognition(settings.asr, engines)
        self._recent = np.zeros(0, np.float32)
        self._utterance: Utterance | None = None
        self._opened: Turn | None = None
        self._failing = False
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
                self._engines.vad.reset(packet.start_sample)
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
        self._engines.vad.reset(packet.end_sample)
        if turn is not None or not self._failing:
            self._events.put_nowait(Failed(Stage.VAD, error, turn))
        self._failing = True

    def _hear(self, packet: Packet) -> None:
        self._recent = np.concatenate([self._recent, packet.samples])[-CAPTURE_RATE_HZ:]
        self._recognition.hear(packet.samples, self._capture.ns_of(packet.end_sample))
        if self._utterance is not None:
            self._utterance.append(packet.samples)
        started_ns = self._clock.now_ns()
        frames = self._engines.vad.push(packet.samples)
        moment = _Moment(packet, self._capture.ns_of(packet.end_sample), started_ns, self._clock.now_ns())
        for frame in frames:
            for event in self._endpoint.push(frame):
                match event:
                    case SpeechStarted():
                        self._open(event, moment)
                    case SilenceAsked():
                        self._ask(event, moment)
                    case SpeechEnded():
                        self._end(event, moment)
        self._step_if_due()
        self._failing = False

    def _open(self, event: SpeechStarted, moment: _Moment) -> None:
        turn = self._opened = self._open_turn(self._capture.ns_of(event.sample))
        packet_end = moment.packet.end_sample
        lead_in_start = max(0, event.sample - round(LEAD_IN_S * CAPTURE_RATE_HZ))
        start = max(lead_in_start, packet_end - len(self._recent))
        utterance = Utterance(turn, self._engines.asr.open(), start)
        utterance.append(self._recent[len(self._recent) - (packet_end - start) :])
        self._recognition.begin(utterance)
        self._utterance = utterance
        self._events.put_nowait(Started(turn, moment.arrived_ns))

    def _step_if_due(self) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        job = self._recognition.step_if_due(utterance, self._endpoint.last_voiced_sample)
        if job is not None:
            self._spawn(Stage.ASR_PARTIAL, self._await_partial(utterance, job))

    async def _await_partial(self, utterance: Utterance, job: Job[Transcript]) -> None:
        text = await self._recognition.partial(utterance, job)
        if text is not None and self._utterance is utterance:
            self._events.put_nowait(Heard(utterance.turn, text))

    def _ask(self, question: SilenceAsked, moment: _Moment) -> None:
        utterance, smart_turn = self._utterance, self._engines.smart_turn
        if utterance is None or smart_turn is None:
            return
        audio = utterance.tail(HEARD_S)

        def ask(_: object) -> _Verdict:
            start_ns = self._clock.now_ns()
            return _Verdict(smart_turn.probability(audio), start_ns, self._clock.now_ns())

        job = self._engines.workers.smart_turn.submit(Stage.SMART_TURN, once(ask))
        self._spawn(Stage.SMART_TURN, self._await_verdict(utterance, job, question, moment))

    async def _await_verdict(
        self, utterance: Utterance, job: Job[_Verdict], question: SilenceAsked, moment: _Moment
    ) -> None:
        verdict = await job.result()
        decided_ns, turn = self._clock.now_ns(), utterance.turn
        if self._utterance is not utterance:
            return
        judged = self._record_silence(turn, question.last_voiced_sample, moment, "hangover")
        host = turn.add(Stage.HOST, moment.judged_ns, job.submitted_ns, [judged], attributes={v.WHAT: "question"})
        step = turn.add(
            Stage.SMART_TURN,
            verdict.start_ns,
            verdict.end_ns,
            [host],
            waited_for=job.waited_for,
            attributes={v.ENDPOINT_PROBABILITY: verdict.probability},
        )
        if self._endpoint.finished(question, verdict.probability):
            turn.describe(v.ENDPOINT, {v.ENDPOINT_PROBABILITY: verdict.probability})
            self._finish(utterance, question.last_voiced_sample, moment, "smart_turn", step, decided_ns)

    def _end(self, event: SpeechEnded, moment: _Moment) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        judged = self._record_silence(utterance.turn, event.last_voiced_sample, moment, event.kind)
        self._finish(utterance, event.last_voiced_sample, moment, event.kind, judged, moment.judged_ns)

    def _record_silence(self, turn: Turn, last_voiced_sample: int, moment: _Moment, what: str) -> int:
        """The wait from the end of speech to the packet that decided, and the VAD's work on that packet."""
        end_ns, _ = self._speech_end(last_voiced_sample)
        start_ns = min(end_ns, moment.arrived_ns)
        wait = turn.add(Stage.ENDPOINT_WAIT, start_ns, moment.arrived_ns, attributes={v.WHAT: what})
        return turn.add(Stage.VAD, moment.started_ns, moment.judged_ns, [wait])

    def _speech_end(self, last_voiced_sample: int) -> tuple[int, bool]:
        """S in monotonic ns, and whether it is the VAD's estimate."""
        known = self._true_speech_end(last_voiced_sample)
        return self._capture.ns_of(last_voiced_sample if known is None else known), known is None

    def _finish(
        self, utterance: Utterance, last_voiced_sample: int, moment: _Moment, kind: str, cause: int, decided_ns: int
    ) -> None:
        hangover_s = seconds(moment.arrived_ns - self._capture.ns_of(last_voiced_sample))
        utterance.turn.describe(v.ENDPOINT, {v.ENDPOINT_KIND: kind, v.ENDPOINT_HANGOVER_S: hangover_s})
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
