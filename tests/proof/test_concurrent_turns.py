"""Point 8: fifty turns at once, on real threads and executors, with barge-ins: no span under the wrong parent."""

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from opentelemetry import context as ambient
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from agent.audio.pace import precise_loop
from agent.cli.session import Session
from agent.engines import Engines, Workers
from agent.events import Event, TurnEnded
from agent.llm.protocol import Message, Prefill, Token
from agent.replay import ScenarioStarted, replay
from agent.settings import load
from agent.worker import Job, ShouldStop, ThreadWorker
from profiling.critical_path import critical_path
from profiling.run import Run, RunWriter, load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from profiling.trace.vocabulary import EndReason, Stage
from tests.fakes.engines import VOCABULARY, FakeAsr, FakeLlm, FakeTts, FakeVad
from tests.fakes.talk import says, scenario

CONVERSATIONS = 50
AMBIENT = SpanContext(trace_id=0xABCDEF, span_id=0x123456, is_remote=False)


class BusyClock(SystemClock):
    """Engines that work on it hold their thread for a moment, each thread for another one."""

    def work(self, seconds: float) -> None:
        threading.Event().wait(seconds / 200)


class PoolWorker:
    """Runs operations on the threads of an executor, as many at once as it has: each on another one than the last."""

    def __init__(self, clock: SystemClock, threads: int = 8):
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads)

    def submit(self, name: str, run: Any) -> Job[Any]:
        job: Job[Any] = Job(name, run, self._clock.now_ns(), None)
        loop = asyncio.get_running_loop()

        def work() -> None:
            failure: BaseException | None = None
            try:
                for item in job.run(lambda: job.cancelled):
                    loop.call_soon_threadsafe(job.deliver, item)
            except Exception as error:
                failure = error
            loop.call_soon_threadsafe(job.finish, failure)

        loop.run_in_executor(self._pool, work)
        return job

    async def close(self, timeout_s: float = 2.0) -> bool:
        self._pool.shutdown(cancel_futures=True)
        return True


class MarkingLlm(FakeLlm):
    """Marks every token with the number of the question that it answers, and answers with the question's words."""

    def generate(self, messages: Sequence[Message], *, should_stop: ShouldStop, **more: Any) -> Iterator[Any]:
        question = messages[-1].content
        times = 30 if number_of(question) % 2 == 0 else 2  # the first of a conversation is spoken until interrupted
        word = question.replace(" ", "-")  # no phrase ends between the two
        reply = f"{word}, " + " ".join([word] * times) + "."
        for item in FakeLlm(self.clock, [reply]).generate(messages, should_stop=should_stop, **more):
            match item:
                case Token():
                    yield replace(item, kv_bytes=number_of(question))
                case Prefill():
                    yield replace(item, evaluated_tokens=number_of(question))
                case _:
                    yield item


class MarkingTts(FakeTts):
    """Marks every phrase with the number of the question whose words it says."""

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Any]:
        for item in super().synthesise(text, should_stop):
            yield replace(item, units=number_of(text)) if hasattr(item, "units") else item


class MarkingAsr(FakeAsr):
    def open(self) -> Any:
        stream = super().open()
        transcribe = stream._transcribe

        def marked(samples: np.ndarray, cost_s: float) -> Any:
            made = transcribe(samples, cost_s)
            return replace(made, tokens=number_of(made.text) if made.text.count(" ") else -1)

        stream._transcribe = marked  # type: ignore[method-assign]
        return stream


def question(number: int) -> str:
    """Two words: no other number has them."""
    return f"{VOCABULARY[number // len(VOCABULARY)]} {VOCABULARY[number % len(VOCABULARY)]}"


def number_of(text: str) -> int:
    first, second = re.findall("[a-z]+", text)[:2]
    return VOCABULARY.index(first) * len(VOCABULARY) + VOCABULARY.index(second)


class CalmSmartTurn:
    def __init__(self, clock: BusyClock):
        self.clock = clock

    def probability(self, samples: np.ndarray) -> float:
        self.clock.work(0.04)
        return 0.9


@dataclass
class Played:
    """The run as it is read back, its lines, and by turn (conversation's id and number) its transcript."""

    run: Run
    lines: list[list[dict[str, Any]]]
    heard: dict[tuple[str, int], str]
    most_open: int


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    clock = BusyClock()
    writer = RunWriter(tmp_path_factory.mktemp("runs"), "fifty", clock)
    session = Session(writer, False, None)
    heard: dict[tuple[str, int], str] = {}
    opened: set[tuple[str, int]] = set()
    most_open = 0

    def observe(event: Event | ScenarioStarted) -> None:
        nonlocal most_open
        if isinstance(event, ScenarioStarted):
            return
        session.observe(event)
        turn = getattr(event, "turn", None)
        if turn is not None:
            opened.add((turn.conversation_id, turn.index))
            most_open = max(most_open, len(opened))
        if isinstance(event, TurnEnded):
            heard[event.turn.conversation_id, event.turn.index] = event.transcript
            opened.discard((event.turn.conversation_id, event.turn.index))

    async def main() -> None:
        workers = Workers(ThreadWorker("asr", clock), PoolWorker(clock), PoolWorker(clock), ThreadWorker("tts", clock))
        asr, llm, tts = MarkingAsr(clock), MarkingLlm(clock), MarkingTts(clock)  # type: ignore[arg-type]
        settings = load(flags={"endpoint": {"mode": "hangover+smart-turn", "hangover_s": 0.1}})

        async def talk(number: int) -> None:
            engines = Engines(FakeVad(), CalmSmartTurn(clock), asr, llm, tts, workers)
            said = [
                says(question(2 * number), "absolute", 0.1, 0.1, known=False),
                says(question(2 * number + 1), "reply_start", 0.2, 0.1, known=False),
            ]
            await replay([scenario(said)], engines, settings, clock, observe)

        await asyncio.gather(*(talk(number) for number in range(CONVERSATIONS)))
        await workers.close()

    token = ambient.attach(trace.set_span_in_context(NonRecordingSpan(AMBIENT)))
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(main())
    finally:
        ambient.detach(token)
    session.complete = True
    session.close()
    texts = writer.trace_path.read_text().splitlines()
    lines = [
        [span for r in json.loads(text)["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]
        for text in texts
    ]
    return Played(load_run(writer.folder), lines, heard, most_open)


def value(span: dict[str, Any], key: str) -> Any:
    return next((next(iter(p["value"].values())) for p in span.get("attributes", ()) if p["key"] == key), None)


def test_fifty_turns_were_open_at_once_and_half_of_the_replies_interrupted(played: Played) -> None:
    assert played.most_open >= CONVERSATIONS and len(played.run.turns) == 2 * CONVERSATIONS
    reasons = [turn.end_reason for turn in played.run.turns]
    assert reasons.count(EndReason.INTERRUPTED) == reasons.count(EndReason.COMPLETED) == CONVERSATIONS
    assert played.run.warnings == ()


def test_every_span_lies_in_its_turns_trace_below_the_parent_of_its_own_turn(played: Played) -> None:
    seen: set[str] = set()
    for spans in played.lines:
        by_id = {span["spanId"]: span for span in spans}
        (root,) = [span for span in spans if not span.get("parentSpanId")]
        assert root["name"] == v.AGENT and {span["traceId"] for span in spans} == {root["traceId"]}
        assert len(by_id) == len(spans) and not seen & by_id.keys() and root["traceId"] not in seen
        seen |= by_id.keys() | {root["traceId"]}
        for span in spans:
            if span is not root:
                parent = by_id[span["parentSpanId"]]
                assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
                assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
            if (stage := value(span, v.STEP_STAGE)) is not None:
                above = parents(span, by_id)
                assert [span["name"], *above] == [*reversed(v.SPAN_PATH_OF_STAGE[Stage(stage)]), v.AGENT], above
    assert f"{AMBIENT.trace_id:032x}" not in seen and f"{AMBIENT.span_id:016x}" not in seen


def parents(span: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> list[str]:
    """The names of the spans above, without the models' names."""
    names: list[str] = []
    while span.get("parentSpanId"):
        span = by_id[span["parentSpanId"]]
        names.append(value(span, v.GROUP) or span["name"])
    return names


def test_every_step_of_every_engine_is_on_the_turn_that_asked_for_it(played: Played) -> None:
    for turn in played.run.turns:
        number = number_of(played.heard[turn.conversation_id, turn.index])
        marks = [
            *(step.attributes[v.ASR_TOKENS] for step in turn.steps if step.stage is Stage.ASR_FINALIZE),
            *(step.attributes[v.LLM_EVALUATED_TOKENS] for step in turn.steps if step.stage is Stage.LLM_PREFILL),
            *(mark for step in turn.steps for mark in step.attributes.get(v.LLM_KV_BYTES, ())),  # type: ignore[union-attr]
            *(step.attributes[v.TTS_UNITS] for step in turn.steps if step.stage is Stage.TTS_SETUP),
        ]
        assert len(marks) > 4 and set(marks) == {number}
    assert len({number_of(text) for text in played.heard.values()}) == 2 * CONVERSATIONS


def test_every_path_is_exact_and_contiguous(played: Played) -> None:
    for turn in played.run.turns:
        path = critical_path(turn)
        assert path is not None and path.total_ns == turn.latency_ns
        assert all(before.end_ns == after.start_ns for before, after in itertools.pairwise(path.segments))
