"""Recognition: an utterance's audio goes to the recogniser as it comes, and every step onto the turn's timeline."""

import asyncio
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.asr.protocol import TAIL_S, AsrEngine, Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.listening.utterance import Filled, Utterance
from agent.loops import loop_times
from agent.worker import Job, once
from profiling.trace import vocabulary as v
from profiling.trace.clock import seconds
from profiling.trace.timeline import Attribute
from profiling.trace.vocabulary import Stage

PAUSE_S = 0.1  # a silence longer than this gets no partial transcript from a model that encodes all of it anew


class Recognition:
    """The recogniser's side of listening: `step_if_due` while the user speaks, `finalize` once the turn has ended."""

    def __init__(self) -> None:
        self._filling: list[Utterance] = []  # have ended, but their last chunk has not been heard to its end

    def begin(self, utterance: Utterance) -> None:
        utterance.next_step = utterance.engines.asr.chunk_end(1)

    def step_if_due(self, utterance: Utterance, last_voiced_sample: int) -> Job[Transcript] | None:
        """Give the recogniser the next chunk when it is there; one that comes due while it is busy, or after it has
        failed, is skipped and counted."""
        asr = utterance.engines.asr
        if utterance.length < utterance.next_step:
            return None
        silence = utterance.length - (last_voiced_sample - utterance.start_sample)
        if silence > PAUSE_S * CAPTURE_RATE_HZ and not asr.needs_whole_chunks:
            return None
        due, utterance.next_step = utterance.next_step, asr.chunk_end(utterance.length + 1)
        if utterance.partial is not None and not utterance.partial.succeeded:
            utterance.skipped += 1
            return None
        return self._step(
            utterance, _whole_chunks(asr, utterance.length, due) if asr.needs_whole_chunks else utterance.length
        )

    def step_in_pause(self, utterance: Utterance, last_voiced_sample: int) -> Job[Transcript] | None:
        """Bring the words up to a silence, out of turn. None when the recogniser is busy, has failed, knows them
        already, or computes whole chunks only."""
        busy = utterance.partial is not None and not utterance.partial.succeeded
        end = _tail_end(utterance, last_voiced_sample)
        if busy or utterance.engines.asr.needs_whole_chunks or utterance.taken >= end:
            return None
        return self._step(utterance, end)

    def _step(self, utterance: Utterance, end: int) -> Job[Transcript]:
        samples, stream = utterance.take(end), utterance.stream
        utterance.partial = utterance.engines.workers.asr.submit(
            Stage.ASR_PARTIAL, once(lambda should_stop: stream.step(samples, should_stop))
        )
        return utterance.partial

    async def partial(self, utterance: Utterance, job: Job[Transcript], cause: int | None = None) -> str | None:
        """The partial transcript, once it is there and on the timeline; None when the turn has ended meanwhile. `cause`
        is the step that asked for it out of turn."""
        length = utterance.taken
        transcript = await job.result()
        if utterance.turn.ended:
            return None
        utterance.partials += 1
        utterance.partial_text, utterance.partial_length = transcript.text, length
        self._record(utterance, Stage.ASR_PARTIAL, transcript, job, [cause])
        return transcript.text

    def end(self, utterance: Utterance) -> None:
        """The turn has ended. Without a flush, the chunk that holds its last word must be heard to its end."""
        needed = self._needed(utterance)
        if utterance.length < needed and _waits_for_chunks(utterance):
            utterance.filled = Filled(needed, asyncio.get_running_loop().create_future())
            self._filling.append(utterance)

    def hear(self, samples: NDArray[np.float32], arrived_ns: int) -> None:
        """A packet that may complete the chunk of an utterance that has ended."""
        for utterance in self._filling:
            utterance.append(samples)
        self._settle(arrived_ns, lambda utterance, filled: utterance.length >= filled.length)

    def no_more(self, now_ns: int) -> None:
        """The packets have ended: what waits for a chunk has to do with what there is."""
        self._settle(now_ns, lambda *_: True)

    def _settle(self, at_ns: int, is_filled: Callable[[Utterance, Filled], bool]) -> None:
        for utterance in list(self._filling):
            if utterance.filled is not None and is_filled(utterance, utterance.filled):
                self._filling.remove(utterance)
                if not utterance.filled.at_ns.done():  # whoever waited for it may have been cancelled
                    utterance.filled.at_ns.set_result(at_ns)

    async def finalize(self, utterance: Utterance) -> tuple[Transcript, int]:
        """The final transcript and the index of its step on the turn."""
        turn, asr, stream = utterance.turn, utterance.engines.asr, utterance.stream
        cause, ready_ns = await self._chunk_wait(utterance)
        rest = utterance.take(self._needed(utterance))
        job = utterance.engines.workers.asr.submit(
            Stage.ASR_FINALIZE, once(lambda should_stop: stream.finalize(rest, should_stop))
        )
        decision = turn.add(
            Stage.HOST,
            ready_ns,
            job.submitted_ns,
            [cause],
            attributes={v.WHAT: "decision"},
        )
        try:
            if utterance.partial is not None:
                await utterance.partial.ended()  # one that failed has lost what it was to hear
            final = await job.result()
        except Exception as error:
            job.cancel()
            turn.describe(v.ASR, {v.ERROR_TYPE: type(error).__name__})
            raise
        step = self._record(utterance, Stage.ASR_FINALIZE, final, job, [decision])
        turn.describe(
            v.ASR,
            {
                v.MODEL: asr.model,
                **asr.attributes,
                v.ASR_PARTIALS: utterance.partials,
                v.ASR_PARTIALS_SKIPPED: utterance.skipped,
                v.ASR_ENCODED_S: utterance.encoded_s,
                v.ASR_SPEECH_S: utterance.taken / CAPTURE_RATE_HZ,
                v.ASR_CHUNKS: utterance.chunks,
                v.ASR_EMPTY: int(not final.text),
            },
        )
        if turn.speech_end_ns is not None:
            turn.describe(v.ASR, {v.ASR_FINAL_AFTER_S: seconds(final.end_ns - turn.speech_end_ns)})
        return final, step

    async def _chunk_wait(self, utterance: Utterance) -> tuple[int | None, int]:
        """Wait for the rest of the last chunk where that is needed; the step and the time from which to go on."""
        cause, decided_ns = utterance.decision_step, utterance.decided_ns
        if utterance.filled is None:
            return cause, decided_ns
        filled_ns = max(decided_ns, await utterance.filled.at_ns)
        return utterance.turn.add(Stage.ASR_CHUNK_WAIT, decided_ns, filled_ns, [cause]), filled_ns

    def _record(
        self, utterance: Utterance, stage: Stage, made: Transcript, job: Job[Transcript], causes: list[int | None]
    ) -> int:
        utterance.encoded_s += made.encoded_s
        utterance.chunks += len(made.passes_ns)
        facts: dict[str, Attribute] = {
            v.ASR_ENCODED_S: made.encoded_s,
            v.ASR_TOKENS: made.tokens,
            **{v.ASR_PART_NS.format(part): ns for part, ns in made.parts_ns.items()},  # one entry per pass
            **loop_times(made.passes_ns, made.start_ns),
        }
        return utterance.turn.add(
            stage, made.start_ns, made.end_ns, causes, waited_for=job.waited_for, attributes=facts
        )

    def _needed(self, utterance: Utterance) -> int:
        """So many samples of the utterance are recognised: to a little after the last voiced one, or without a flush
        to the end of that chunk."""
        tail_end = _tail_end(utterance, utterance.last_voiced_sample)
        return utterance.engines.asr.chunk_end(tail_end) if _waits_for_chunks(utterance) else tail_end


def _waits_for_chunks(utterance: Utterance) -> bool:
    return utterance.engines.asr.needs_whole_chunks and not utterance.settings.asr.flush


def _whole_chunks(asr: AsrEngine, length: int, end: int) -> int:
    """The last end of a chunk within `length`; `end` is an earlier one."""
    while (later := asr.chunk_end(end + 1)) <= length:
        end = later
    return end


def _tail_end(utterance: Utterance, last_voiced_sample: int) -> int:
    """A little after the last voiced sample, counted from the utterance's start."""
    return last_voiced_sample - utterance.start_sample + round(TAIL_S * CAPTURE_RATE_HZ)
