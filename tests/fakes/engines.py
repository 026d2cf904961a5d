"""Engines that need no models: speech is a code in the samples, words take exact times, sound is a tone.

A user's utterance is made by `speech("some words")`: 200 ms of samples per word, each word's samples at a level that
names its place in `VOCABULARY`. The fake VAD hears any level above silence, the fake recogniser reads the words back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agent.asr.protocol import Transcript
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.engines import Engines, Workers
from agent.listening.vad import VadFrame
from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.tts.protocol import Patch, Setup
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute
from tests.fakes.virtual_time import VirtualClock, VirtualWorker

VOCABULARY = (
    *("hello", "how", "are", "you", "today", "what", "is", "the", "time", "tell", "me", "a", "story", "stop"),
    *("please", "and", "then", "go", "on", "forward", "ten", "meters", "yeah", "okay"),
)
WORD_S = 0.2
FRAME = 512
ShouldStop = Callable[[], bool]
Samples = NDArray[np.float32]


def speech(text: str) -> Samples:
    levels = [0.1 + 0.02 * VOCABULARY.index(word) for word in text.split()]
    return np.repeat(np.array(levels, np.float32), round(WORD_S * CAPTURE_RATE_HZ))


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * CAPTURE_RATE_HZ), np.float32)


def noise(seconds: float) -> Samples:
    """What the VAD takes for speech, and the recogniser not for words."""
    return np.full(round(seconds * CAPTURE_RATE_HZ), 0.06, np.float32)


def recognise(samples: Samples) -> str:
    words: list[str] = []
    step = round(WORD_S * CAPTURE_RATE_HZ)
    voiced = samples[samples > 0.08]
    for start in range(0, len(voiced) - step // 2, step):
        words.append(VOCABULARY[round((float(np.median(voiced[start : start + step])) - 0.1) / 0.02)])
    return " ".join(words)


@dataclass
class FakeVad:
    """The stream that reaches sample `fail_at` first fails there, once."""

    fail_at: int | None = None

    def open(self, start_sample: int = 0) -> "FakeVadStream":
        return FakeVadStream(self, start_sample)


class FakeVadStream:
    def __init__(self, vad: FakeVad, start_sample: int) -> None:
        self._vad = vad
        self.reset(start_sample)

    def reset(self, start_sample: int = 0) -> None:
        self._rest, self._sample = np.zeros(0, np.float32), start_sample

    def push(self, samples: Samples) -> list[VadFrame]:
        if self._vad.fail_at is not None and self._sample >= self._vad.fail_at:
            self._vad.fail_at = None
            raise RuntimeError("the voice detector broke")
        self._rest = np.concatenate([self._rest, samples])
        frames: list[VadFrame] = []
        while len(self._rest) >= FRAME:
            frame, self._rest = self._rest[:FRAME], self._rest[FRAME:]
            voiced = float(np.mean(frame > 0.05))
            frames.append(VadFrame(self._sample, self._sample + FRAME, 0.9 if voiced >= 0.5 else 0.02))
            self._sample += FRAME
        return frames


@dataclass
class FakeSmartTurn:
    """Says `answers` in turn, then yes."""

    clock: VirtualClock
    answers: list[float] = field(default_factory=list[float])
    cost_s: float = 0.04

    def probability(self, samples: Samples) -> float:
        self.clock.work(self.cost_s)
        return self.answers.pop(0) if self.answers else 0.9


@dataclass
class FakeAsrStream:
    engine: "FakeAsr"
    audio: Samples = field(default_factory=lambda: np.zeros(0, np.float32))

    def step(self, samples: Samples, should_stop: ShouldStop) -> Transcript:
        return self._transcribe(samples, self.engine.step_cost_s)

    def finalize(self, samples: Samples, should_stop: ShouldStop) -> Transcript:
        if self.engine.fail_next:
            self.engine.fail_next = False
            raise RuntimeError("the recogniser broke")
        return self._transcribe(samples, self.engine.finalize_cost_s)

    def _transcribe(self, samples: Samples, cost_s: float) -> Transcript:
        start_ns = self.engine.clock.now_ns()
        self.audio = np.concatenate([self.audio, samples])
        self.engine.clock.work(cost_s)
        text = "" if self.engine.deaf else recognise(self.audio)
        encoded_s, end_ns = len(self.audio) / CAPTURE_RATE_HZ, self.engine.clock.now_ns()
        half_ns = (end_ns - start_ns) // 2
        passes_ns = ((start_ns, start_ns + half_ns), (start_ns + half_ns, end_ns))
        parts_ns = {"encoder": (half_ns // 2, half_ns // 2), "decoder": (half_ns // 2, half_ns // 2)}
        return Transcript(text, start_ns, end_ns, encoded_s, len(text.split()), passes_ns, parts_ns)


@dataclass
class FakeAsr:
    clock: VirtualClock
    model: str = "fake-asr"
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    needs_whole_chunks: bool = False
    chunks_ms: tuple[int, ...] = (80, 160, 320, 560, 1120)
    chunk_samples: int = 5120
    step_cost_s: float = 0.03
    finalize_cost_s: float = 0.05
    fail_next: bool = False
    deaf: bool = False

    def chunk_end(self, sample: int) -> int:
        return -(-sample // self.chunk_samples) * self.chunk_samples

    def with_chunk(self, chunk_ms: int) -> "FakeAsr":
        return replace(self, chunk_samples=chunk_ms * CAPTURE_RATE_HZ // 1000)

    def open(self) -> FakeAsrStream:
        return FakeAsrStream(self)

    def warm_up(self) -> None: ...


@dataclass
class FakeLlm:
    """Replies with the next of `replies`, a word a token; `asked` keeps the messages of every call."""

    clock: VirtualClock
    replies: list[str] = field(default_factory=list[str])
    model: str = "fake-llm"
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    prefill_cost_s: float = 0.08
    token_cost_s: float = 0.01
    fail_next: bool = False
    context_tokens: int = 4096
    weight_bytes: int | None = 1000
    depth: int = 0
    asked: list[list[Message]] = field(default_factory=list[list[Message]])
    keep_cost_s: float | None = None
    kept: list[list[Message]] = field(default_factory=list[list[Message]])

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        return sum(len(message.content.split()) for message in messages)

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop: ShouldStop
    ) -> Iterator[Prefill | Token | Finished]:
        self.asked.append(list(messages))
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the language model broke")
        start_ns = self.clock.now_ns()
        self.clock.work(self.prefill_cost_s)
        tokens = self.prompt_tokens(messages)
        yield Prefill(start_ns, start_ns, self.clock.now_ns(), tokens, 0, tokens)
        reply = self.replies.pop(0) if self.replies else "I see."
        for _ in range(thinking_tokens):
            yield self._token("hidden ", unspoken=True)
        for word in reply.split(" "):
            if should_stop():
                yield Finished("cancelled")
                return
            yield self._token(word if word == reply.split(" ")[0] else " " + word, unspoken=False)
        yield Finished("stop", {v.LLM_DRAFTED_TOKENS: 4, v.LLM_ACCEPTED_TOKENS: 3})

    def prefill(self, messages: Sequence[Message], *, should_stop: ShouldStop) -> Prefill | None:
        self.kept.append(list(messages))
        if self.keep_cost_s is None:
            return None
        start_ns = self.clock.now_ns()
        self.clock.work(self.keep_cost_s)
        tokens = self.prompt_tokens(messages)
        return Prefill(start_ns, start_ns, self.clock.now_ns(), tokens, tokens - 3, 3)

    def _token(self, text: str, unspoken: bool) -> Token:
        start_ns = self.clock.now_ns()
        self.clock.work(self.token_cost_s)
        self.depth += 1
        return Token(text, unspoken, start_ns, self.clock.now_ns(), self.weight_bytes, 10 * self.depth)

    def warm_up(self, messages: Sequence[Message]) -> None: ...


@dataclass
class FakeTts:
    """A tone of `word_s` per word in patches of at most `patch_s`, after 20 ms of silence."""

    clock: VirtualClock
    model: str = "fake-tts"
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    sample_rate: int = 20_000
    setup_cost_s: float = 0.03
    patch_cost_s: float = 0.04
    patch_s: float = 0.4
    word_s: float = 0.25
    fail_next: bool = False
    said: list[str] = field(default_factory=list[str])

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        self.said.append(text)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the voice broke")
        start_ns = self.clock.now_ns()
        self.clock.work(self.setup_cost_s)
        words = len(text.split())
        yield Setup(
            start_ns,
            self.clock.now_ns(),
            {"encode": round(self.setup_cost_s * 1e9)},
            len(text),
            tuple((i + 1) / words for i in range(words)),
            words * self.word_s,
        )
        times = np.arange(round(words * self.word_s * self.sample_rate)) / self.sample_rate
        audio = (0.3 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)
        audio[: self.sample_rate // 50] = 0
        size = round(self.patch_s * self.sample_rate)
        for start in range(0, len(audio), size):
            if should_stop():
                return
            start_ns = self.clock.now_ns()
            self.clock.work(self.patch_cost_s)
            parts_ns = {"diffusion": round(self.patch_cost_s * 0.75e9), "vae": round(self.patch_cost_s * 0.25e9)}
            yield Patch(audio[start : start + size], start_ns, self.clock.now_ns(), parts_ns, forwards=9)

    def warm_up(self) -> None: ...


def fake_engines(clock: VirtualClock, replies: Sequence[str] = (), chunk_ms: int = 320) -> Engines:
    workers = Workers(VirtualWorker(clock), VirtualWorker(clock), VirtualWorker(clock), VirtualWorker(clock))
    asr = FakeAsr(clock, chunk_samples=chunk_ms * CAPTURE_RATE_HZ // 1000)
    return Engines(FakeVad(), FakeSmartTurn(clock), asr, FakeLlm(clock, list(replies)), FakeTts(clock), workers)
