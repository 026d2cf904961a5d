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
from agent.listening.utterance import Utterance
from agent.settings import Settings
from agent.worker import Job, once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage

LEAD_IN_S = 0.32  # audio before the VAD's speech start that belongs to the first word
TAIL_S = 0.16  # silence after the last voiced sample that the recogniser is given
PAUSE_S = 0.1  # a silence longer than this gets no partial transcript
SMART_TURN_S = 8.0  # what smart-turn listens to


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
    """A listening engine failed while the user spoke; listening goes on."""

    stage: Stage
    error: Exception


ListenEvent = SpeechStarted | Heard | Finished | Failed


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
        self._chunk = settings.asr.chunk_ms * CAPTURE_RATE_HZ // 1000
        self._recent = np.zeros(0, np.float32)
        self._utterance: Utterance | None = None
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
            for task in (reader, *self._tasks):
                task.cancel()

    async def finalize(self, utterance: Utterance) -> tuple[Transcript, int]:
        """The final transcript and the index of its step on the turn."""
        tail_end = utterance.last_voiced_sample - utterance.start_sample + round(TAIL_S * CAPTURE_RATE_HZ)
        rest = utterance.take(tail_end)
        stream = utterance.stream
        job = self._engines.workers.asr.submit(
            Stage.ASR_FINALIZE, once(lambda should_stop: stream.finalize(rest, should_stop))
        )
        decision = utterance.turn.add(
            Stage.HOST,
            utterance.decided_ns,
            job.submitted_ns,
            [utterance.decision_step],
            attributes={v.WHAT: "decision"},
        )
        final = await job.result()
        utterance.encoded_s += final.encoded_s
        step = utterance.turn.add(
            Stage.ASR_FINALIZE,
            final.start_ns,
            final.end_ns,
            [decision],
            waited_for=job.waited_for,
            attributes={v.ASR_ENCODED_S: final.encoded_s},
        )
        utterance.turn.describe(
            v.ASR,
            {
                v.MODEL: self._engines.asr.model,
                v.ASR_CHUNK_S: self._settings.asr.chunk_ms / 1000,
                v.ASR_PARTIALS: utterance.partials,
                v.ASR_PARTIALS_SKIPPED: utterance.skipped,
                v.ASR_ENCODED_S: utterance.encoded_s,
                v.ASR_SPEECH_S: utterance.taken / CAPTURE_RATE_HZ,
            },
        )
        return final, step

    async def _read(self, packets: AsyncIterator[Packet]) -> None:
        async for packet in packets:
            self._hear(packet)
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _hear(self, packet: Packet) -> None:
        started_ns = self._clock.now_ns()
        self._recent = np.concatenate([self._recent, packet.samples])[-CAPTURE_RATE_HZ:]
        if self._utterance is not None:
            self._utterance.append(packet.samples)
        for frame in self._engines.vad.push(packet.samples):
            for event in self._endpoint.push(frame):
                match event:
                    case SpeechStarted():
                        self._open(event, packet)
                    case SilenceAsked():
                        self._ask(packet, started_ns)
                    case SpeechEnded():
                        self._end(event, packet, started_ns)
        self._step_if_due()

    def _open(self, event: SpeechStarted, packet: Packet) -> None:
        lead_in_start = max(0, event.sample - round(LEAD_IN_S * CAPTURE_RATE_HZ))
        start = max(lead_in_start, packet.end_sample - len(self._recent))
        utterance = Utterance(self._open_turn(self._capture.ns_of(event.sample)), self._engines.asr.open(), start)
        utterance.append(self._recent[len(self._recent) - (packet.end_sample - start) :])
        utterance.next_step = self._chunk
        self._utterance = utterance
        self._events.put_nowait(event)

    def _step_if_due(self) -> None:
        """Give the recogniser the next chunk while the user speaks; a chunk that comes due while it is busy is
        skipped and counted."""
        utterance = self._utterance
        if utterance is None or utterance.length < utterance.next_step:
            return
        voiced = self._endpoint.last_voiced_sample - utterance.start_sample
        if utterance.length - voiced > PAUSE_S * CAPTURE_RATE_HZ:
            return
        utterance.next_step = utterance.length + self._chunk
        if utterance.partial is not None and not utterance.partial.done:
            utterance.skipped += 1
            return
        samples, stream = utterance.take(utterance.length), utterance.stream
        utterance.partial = self._engines.workers.asr.submit(
            Stage.ASR_PARTIAL, once(lambda should_stop: stream.step(samples, should_stop))
        )
        self._spawn(Stage.ASR_PARTIAL, self._await_partial(utterance, utterance.partial))

    async def _await_partial(self, utterance: Utterance, job: Job[Transcript]) -> None:
        transcript = await job.result()
        utterance.partials += 1
        utterance.encoded_s += transcript.encoded_s
        utterance.text = transcript.text
        utterance.turn.add(
            Stage.ASR_PARTIAL,
            transcript.start_ns,
            transcript.end_ns,
            waited_for=job.waited_for,
            attributes={v.ASR_ENCODED_S: transcript.encoded_s},
        )
        if self._utterance is utterance:
            self._events.put_nowait(Heard(utterance.turn, transcript.text))

    def _ask(self, packet: Packet, started_ns: int) -> None:
        utterance, smart_turn = self._utterance, self._engines.smart_turn
        if utterance is None or smart_turn is None:
            return
        utterance.last_voiced_sample = self._endpoint.last_voiced_sample
        audio = utterance.tail(SMART_TURN_S)
        arrived_ns = self._capture.ns_of(packet.end_sample)

        def ask(_: object) -> _Verdict:
            start_ns = self._clock.now_ns()
            return _Verdict(smart_turn.probability(audio), start_ns, self._clock.now_ns())

        job = self._engines.workers.smart_turn.submit(Stage.SMART_TURN, once(ask))
        self._spawn(Stage.SMART_TURN, self._await_verdict(utterance, job, arrived_ns, started_ns))

    async def _await_verdict(self, utterance: Utterance, job: Job[_Verdict], arrived_ns: int, started_ns: int) -> None:
        verdict = await job.result()
        turn = utterance.turn
        wait = self._record_wait(utterance, arrived_ns, "hangover")
        host = turn.add(Stage.HOST, started_ns, job.submitted_ns, [wait], attributes={v.WHAT: "vad"})
        step = turn.add(
            Stage.SMART_TURN,
            verdict.start_ns,
            verdict.end_ns,
            [host],
            waited_for=job.waited_for,
            attributes={v.ENDPOINT_PROBABILITY: verdict.probability},
        )
        if self._utterance is not utterance:
            return
        turn.describe(v.ENDPOINT, {v.ENDPOINT_PROBABILITY: verdict.probability})
        decided_ns = self._clock.now_ns()
        if self._endpoint.finished(verdict.probability):
            self._finish(utterance, step, "smart_turn", decided_ns)

    def _end(self, event: SpeechEnded, packet: Packet, started_ns: int) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        utterance.last_voiced_sample = event.last_voiced_sample
        wait = self._record_wait(utterance, self._capture.ns_of(packet.end_sample), event.kind)
        self._finish(utterance, wait, event.kind, started_ns)

    def _record_wait(self, utterance: Utterance, until_ns: int, what: str) -> int:
        """The silence from the end of speech to the packet that decided, as a step."""
        end_ns, _ = self._speech_end(utterance)
        return utterance.turn.add(Stage.ENDPOINT_WAIT, min(end_ns, until_ns), until_ns, attributes={v.WHAT: what})

    def _speech_end(self, utterance: Utterance) -> tuple[int, bool]:
        """S in monotonic ns, and whether it is the VAD's estimate."""
        known = self._true_speech_end(utterance.last_voiced_sample)
        return self._capture.ns_of(utterance.last_voiced_sample if known is None else known), known is None

    def _finish(self, utterance: Utterance, cause: int, kind: str, decided_ns: int) -> None:
        hangover_ns = utterance.turn.steps[cause].end_ns - self._capture.ns_of(utterance.last_voiced_sample)
        utterance.turn.describe(v.ENDPOINT, {v.ENDPOINT_KIND: kind, v.ENDPOINT_HANGOVER_S: seconds(hangover_ns)})
        utterance.turn.speech_end_ns, utterance.turn.speech_end_estimated = self._speech_end(utterance)
        utterance.decision_step, utterance.decided_ns = cause, decided_ns
        self._utterance = None
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
