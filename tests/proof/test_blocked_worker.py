"""Point 4: an engine that somebody else holds costs queue, not service."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.settings import load
from agent.thinking import Thinking
from agent.worker import ShouldStop, ThreadWorker, once
from profiling.critical_path import CriticalPath, critical_path
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.fakes.engines import fake_engines
from tests.fakes.virtual_time import VirtualClock

MS = 1_000_000


class HandClock:
    """Stands still unless somebody moves it, on whichever thread."""

    def __init__(self) -> None:
        self._ns = 1_000 * MS
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        return self._ns

    def wall_ns(self) -> int:
        return self._ns

    def pass_by(self, ms: int) -> None:
        with self._lock:
            self._ns += ms * MS


class Model:
    """A language model whose prefill takes 80 ms and each token 10 ms."""

    model, attributes, context_tokens = "model", {}, 4096

    def __init__(self, clock: HandClock):
        self.clock = clock

    def generate(
        self, messages: list[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        taken_ns = self.clock.now_ns()
        self.clock.pass_by(80)
        yield Prefill(taken_ns, taken_ns, self.clock.now_ns(), 9, 0, 9)
        for word in ("Well,", " yes", ", of", " course."):
            start_ns = self.clock.now_ns()
            self.clock.pass_by(10)
            yield Token(word, False, start_ns, self.clock.now_ns())
        yield Finished("stop")


async def thought(held_ms: int) -> CriticalPath:
    """The path of a turn whose language model, on a thread of its own, is held for so long when it is asked."""
    clock = HandClock()
    worker, release = ThreadWorker("llm", clock), threading.Event()
    engines = fake_engines(VirtualClock())
    object.__setattr__(engines, "llm", Model(clock))
    object.__setattr__(engines.workers, "llm", worker)
    turn = Turn("c", 1, 0, speech_end_ns=clock.now_ns())
    held = worker.submit("somebody else", once(lambda _: release.wait(10))) if held_ms else None
    thinking = Thinking(turn, engines, load().llm, clock, cause=None, received_ns=clock.now_ns())
    phrases = thinking.phrases([Message("user", "hello")])
    first = asyncio.ensure_future(anext(phrases))
    while thinking._job is None:
        await asyncio.sleep(0)
    clock.pass_by(held_ms)
    release.set()
    turn.first_audio_step = (await first).step
    assert turn.first_audio_step is not None
    turn.first_audio_ns = turn.steps[turn.first_audio_step].end_ns
    async for _ in phrases:  # the rest of the reply, while the first phrase would be spoken
        pass
    assert held is None or held.done
    assert await worker.close()
    path = critical_path(turn)
    assert path is not None and path.total_ns == turn.latency_ns
    return path


@pytest.mark.parametrize("held_ms", [1, 300, 5000])
def test_a_thread_that_is_held_costs_queue_and_names_the_holder_and_service_stays_what_it_was(held_ms: int) -> None:
    free, blocked = asyncio.run(thought(0)), asyncio.run(thought(held_ms))
    assert Stage.QUEUE not in free.totals and free.totals[Stage.LLM_PREFILL] == 80 * MS
    assert blocked.totals == {**free.totals, Stage.QUEUE: held_ms * MS}
    (gap,) = (segment for segment in blocked.segments if segment.stage is Stage.QUEUE)
    assert gap.waited_for == "somebody else" and gap.kind is None
