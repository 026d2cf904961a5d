"""A long conversation, and many in a row, cost no more memory, threads, file descriptors or tasks late than early."""

import asyncio
import gc
import threading
import tracemalloc
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from agent.apology import Apology
from agent.events import Event, TurnEnded
from agent.llm.history import new_history
from agent.replay import ScenarioStarted, replay
from agent.scenario import Scenario
from agent.settings import load
from profiling.trace.vocabulary import EndReason
from tests.fakes.engines import Samples, fake_engines, silence
from tests.fakes.talk import says, scenario, utterance
from tests.fakes.virtual_time import VirtualClock, run_virtually

REPLIES = ("Once upon a time there was a dragon.", "Fine, thank you.", "I have stopped.")
ROUND = (  # what the user does, again and again
    says("hello", "reply_end", 0.1, pause_s=0.1),
    says("tell me a story", "reply_end", 0.1, pause_s=0.1),
    says("stop please", "reply_start", 0.1, pause_s=0.1),  # a barge-in
    says("how are you", "reply_end", 0.1, pause_s=0.1, known=False),
    utterance(silence(0.2), "reply_start", 0.1, None),  # that says nothing
    says("go on", "reply_end", 0.3, pause_s=0.1),
)
FIRST = says("hello", "absolute", 0.1, pause_s=0.1)
# In 100 turns. CPython's cache of attribute names fills slowly, and a scenario's player remembers what it has played
# (0.2 kB a turn); a single turn's timeline has 14 kB, and a second of sound 64 kB.
KEPT_BYTES = 100_000


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

    memory_bytes: int
    threads: int
    file_descriptors: int
    tasks: int

    @classmethod
    def now(cls) -> "Held":
        gc.collect()
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return cls(tracemalloc.get_traced_memory()[0], threading.active_count(), descriptors, len(asyncio.all_tasks()))


@dataclass
class Watcher:
    """Looks at the end of every `every`th turn, or at the start of every conversation, from the `since`th on; keeps
    nothing else."""

    clock: VirtualClock
    engines: Any
    every: int | None
    since: int
    turns: int = 0
    reasons: set[EndReason | None] = field(default_factory=set)
    held: dict[int, Held] = field(default_factory=dict)
    conversations: int = 0

    def observe(self, event: Event | ScenarioStarted) -> None:
        match event:
            case ScenarioStarted():
                self.conversations += 1
                if self.every is None:
                    self._look(self.conversations)
            case TurnEnded(turn):
                self.turns += 1
                self.reasons.add(turn.end_reason)
                self._break_something()
                if self.every and self.turns % self.every == 0:
                    self._look(self.turns)
            case _:
                pass

    def _look(self, number: int) -> None:
        """Memory is traced no longer than it is compared: tracing doubles the time that all takes."""
        if number == self.since:
            gc.collect()
            gc.freeze()  # what is there already needs no looking at
            tracemalloc.start()
        if number >= self.since:
            self.held[number] = Held.now()

    def record(self, user: Samples, agent: Samples) -> None:
        """Both sides have been heard."""

    def _break_something(self) -> None:
        """Every engine in turn, every few turns; now and then one hangs."""
        engines, clock = self.engines, self.clock
        match self.turns % 40:
            case 5:
                engines.asr.fail_next = True
            case 15:
                engines.llm.fail_next = True
            case 25:
                engines.tts.fail_next = True
            case 35:
                engines.llm.generate = hanging_once(engines.llm, clock)
            case _:
                pass


def hanging_once(llm: Any, clock: VirtualClock) -> Any:
    def generate(*args: Any, **named: Any) -> Iterator[Any]:
        del llm.generate
        clock.hang()
        yield

    return generate


def watched(scenarios: list[Scenario], every: int | None, since: int) -> Watcher:
    """The scenarios on one set of engines whose context is soon full."""
    clock, settings = VirtualClock(), load()
    engines: Any = fake_engines(clock)
    opening = engines.llm.prompt_tokens(new_history(settings.llm).opening())
    engines.llm.context_tokens = opening + settings.llm.max_tokens + 32 + 60
    engines.workers.llm.bound = replace(engines.workers.llm.bound, limit_s=2.0)
    engines.llm.replies, engines.tts.word_s = Endless(), 0.1
    engines.llm.asked, engines.llm.kept, engines.tts.said = deque(maxlen=2), deque(maxlen=2), deque(maxlen=2)
    engines = replace(engines, apology=Apology(np.full(4_000, 0.2, np.float32), engines.tts.sample_rate))
    watcher = Watcher(clock, engines, every, since)

    async def main() -> None:
        try:
            await replay(scenarios, engines, settings, clock, watcher.observe, watcher)
        finally:
            await engines.workers.close()

    try:
        run_virtually(clock, main())
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    return watcher


class Endless:
    """The replies of a model that never runs out of them."""

    def __init__(self) -> None:
        self._replies = cycle(REPLIES)

    def pop(self, index: int) -> str:
        return next(self._replies)


def check(held: dict[int, Held], early: range, late: range) -> None:
    """The middle of what was held late is what was held early."""
    before, after = ([held[turn] for turn in turns if turn in held] for turns in (early, late))
    assert min(len(before), len(after)) >= 5
    for name in ("threads", "file_descriptors", "tasks"):
        assert max(getattr(h, name) for h in after) <= max(getattr(h, name) for h in before), name
    grown = median(h.memory_bytes for h in after) - median(h.memory_bytes for h in before)
    assert grown < KEPT_BYTES, f"{grown:,} bytes more"


def test_200_turns_in_a_row_leave_nothing_behind() -> None:
    watcher = watched([scenario([FIRST, *islice(cycle(ROUND), 245)])], every=10, since=50)
    assert watcher.turns >= 200
    assert watcher.reasons >= {EndReason.COMPLETED, EndReason.INTERRUPTED, EndReason.ERROR}
    check(watcher.held, range(50, 101), range(150, 201))


def test_40_conversations_on_the_same_engines_leave_nothing_behind() -> None:
    watcher = watched([scenario([FIRST, *ROUND[1:3]]) for _ in range(40)], every=None, since=10)
    assert watcher.conversations == 40 and watcher.turns >= 120
    check(watcher.held, range(10, 21), range(30, 41))
