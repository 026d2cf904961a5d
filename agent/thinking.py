"""Thinking: the language model's tokens, cut into phrases, with every step on the turn's timeline."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from agent.engines import Engines
from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.loops import add_loop
from agent.settings import LlmSettings
from agent.tts.phrases import Phrase, PhraseCutter
from agent.worker import Job, once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import Stage


@dataclass(frozen=True)
class ThoughtPhrase:
    """A phrase, the step of the turn that finished it, and when the event loop got it."""

    phrase: Phrase
    step: int | None
    received_ns: int


@dataclass
class Thinking:
    """One generation. `cause` is the step that gave the transcript, `received_ns` when the event loop got it."""

    turn: Turn
    engines: Engines
    settings: LlmSettings
    clock: Clock
    cause: int | None
    received_ns: int
    text: str = ""
    _stopped: bool = False
    _job: Job[Any] | None = None
    _unspoken: list[Token] = field(default_factory=list[Token])
    _visible: list[Token] = field(default_factory=list[Token])

    def stop(self) -> None:
        self._stopped = True
        if self._job is not None:
            self._job.cancel()

    async def phrases(self, messages: Sequence[Message]) -> AsyncIterator[ThoughtPhrase]:
        """Generate and yield the reply phrase by phrase. Raises what the engine raises."""
        cutter = PhraseCutter()
        try:
            async for item in self._submit(messages):
                received_ns = self.clock.now_ns()
                match item:
                    case Prefill():
                        self._record_prefill(item)
                    case Token(unspoken=True):
                        self._unspoken.append(item)
                    case Token():
                        self._record_unspoken()
                        self._visible.append(item)
                        self.text += item.text
                        for phrase in cutter.push(item.text):
                            yield self._finish_phrase(phrase, received_ns)
                    case Finished():
                        self._record_unspoken()
                        if item.reason != "cancelled":
                            for phrase in cutter.flush():
                                yield self._finish_phrase(phrase, received_ns)
                        self._record_visible(None)
                        self.turn.describe(v.LLM, {v.LLM_FINISH: item.reason, **item.attributes})
        except Exception as error:
            self.turn.describe(v.LLM, {v.ERROR_TYPE: type(error).__name__})
            raise
        finally:
            self._record_unspoken()
            self._record_visible(None)

    async def keep(self, messages: Sequence[Message]) -> None:
        """While the reply plays: bring the KV cache to what the next prompt begins with. A chat template may write a
        reply otherwise than the model did (Gemma's drops the thought), so what follows it would be evaluated later."""
        reply = Message("assistant", self.text)
        if self._stopped or not reply.content.strip():
            return
        job = self.engines.workers.llm.submit(
            "llm.prefill",
            once(lambda should_stop: self.engines.llm.prefill([*messages, reply], should_stop=should_stop)),
        )
        try:
            async for prefill in job:
                if prefill is not None and prefill.evaluated_tokens and not self.turn.ended:
                    known: dict[str, Attribute] = {v.LLM_EVALUATED_TOKENS: prefill.evaluated_tokens, v.WHAT: "history"}
                    self.turn.add(Stage.LLM_PREFILL, prefill.start_ns, prefill.end_ns, [self.cause], attributes=known)
        except Exception as error:  # the reply is spoken all the same, and the next prompt will tell
            if not self.turn.ended:
                self.turn.describe(v.LLM, {v.ERROR_TYPE: type(error).__name__})
        finally:
            job.cancel()

    def _submit(self, messages: Sequence[Message]) -> Job[Prefill | Token | Finished]:
        self._job = self.engines.workers.llm.submit(
            "llm.generate",
            lambda should_stop: self.engines.llm.generate(
                messages,
                thinking_tokens=self.settings.thinking_budget(self.engines.llm.context_tokens),
                max_tokens=self.settings.max_tokens,
                should_stop=should_stop,
            ),
        )
        if self._stopped:
            self._job.cancel()
        self.cause = self.turn.add(
            Stage.HOST, self.received_ns, self._job.submitted_ns, [self.cause], attributes={v.WHAT: "prompt"}
        )
        return self._job

    def _record_prefill(self, prefill: Prefill) -> None:
        counts = {
            v.INPUT_TOKENS: prefill.prompt_tokens,
            v.CACHED_TOKENS: prefill.cached_tokens,
            v.LLM_EVALUATED_TOKENS: prefill.evaluated_tokens,
        }
        known: dict[str, Attribute] = {key: count for key, count in counts.items() if count is not None}
        waited_for = self._job.waited_for if self._job else None
        self.cause = self.turn.add(
            Stage.HOST,
            prefill.taken_ns,
            prefill.start_ns,
            [self.cause],
            waited_for=waited_for,
            attributes={v.WHAT: "render prompt"},
        )
        self.cause = self.turn.add(
            Stage.LLM_PREFILL,
            prefill.start_ns,
            prefill.end_ns,
            [self.cause],
            attributes=known,
        )
        llm = self.engines.llm
        self.turn.describe(
            v.LLM, {v.MODEL: llm.model, v.OPERATION: "chat", v.UNSPOKEN_TOKENS: 0, **llm.attributes, **known}
        )

    def _record_unspoken(self) -> None:
        if self._unspoken:
            self._record_loop(Stage.LLM_THINKING, self._unspoken, None, tag_tokens(self._unspoken))
            self._add_tokens(v.UNSPOKEN_TOKENS, len(self._unspoken))
            self._add_tokens(v.OUTPUT_TOKENS, len(self._unspoken))
            self._unspoken = []

    def _finish_phrase(self, phrase: Phrase, received_ns: int) -> ThoughtPhrase:
        self._record_visible(phrase.index)
        return ThoughtPhrase(phrase, self.cause, received_ns)

    def _record_visible(self, phrase: int | None) -> None:
        """The tokens since the last phrase; those of an unfinished phrase have no phrase number."""
        if not self._visible:
            return
        group = self.turn.groups.get((v.LLM, None), {})
        if v.FIRST_CHUNK_S not in group:
            self.turn.describe(v.LLM, {v.FIRST_CHUNK_S: seconds(self._visible[0].end_ns - self.received_ns)})
        self._record_loop(Stage.LLM_DECODE if phrase != 0 else Stage.LLM_FIRST_PHRASE, self._visible, phrase)
        self._add_tokens(v.OUTPUT_TOKENS, len(self._visible))
        self._visible = []

    def _record_loop(
        self, stage: Stage, tokens: Sequence[Token], phrase: int | None, more: Mapping[str, Attribute] | None = None
    ) -> None:
        intervals = [(token.start_ns, token.end_ns) for token in tokens]
        known = _bytes_read(tokens) | dict(more or {})
        self.cause = add_loop(self.turn, stage, intervals, [self.cause], phrase, known)

    def _add_tokens(self, name: str, count: int) -> None:
        before = self.turn.groups.get((v.LLM, None), {}).get(name, 0)
        self.turn.describe(v.LLM, {name: count + (before if isinstance(before, int) else 0)})


def tag_tokens(thought: Sequence[Token]) -> dict[str, Attribute]:
    """How many of a thought's tokens were injected before it and after it."""
    opening = len(list(takewhile(lambda token: token.injected, thought)))
    closing = len(list(takewhile(lambda token: token.injected, reversed(thought[opening:]))))
    return {v.LLM_OPENING_TAG_TOKENS: opening, v.LLM_CLOSING_TAG_TOKENS: closing}


def _bytes_read(tokens: Sequence[Token]) -> dict[str, Attribute]:
    """What the tokens' evaluations read; nothing where the engine does not know."""
    known = [(t.weight_bytes, t.kv_bytes) for t in tokens if t.weight_bytes is not None and t.kv_bytes is not None]
    if len(known) < len(tokens):
        return {}
    return {
        v.WORK_BYTES: sum(weights + kv for weights, kv in known),
        v.WORK_STEPS: sum(weights > 0 for weights, _ in known),
        v.LLM_KV_BYTES: [kv for _, kv in known],
    }
