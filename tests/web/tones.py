"""Engines whose speech survives a codec: a word is a tone, in what the user says and in what the agent answers."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.engines import Engines, Workers
from agent.listening.vad import VadFrame
from agent.llm.protocol import Finished, Message, Prefill, Token
from agent.settings import Settings, load
from agent.tts.protocol import Patch, Setup
from agent.worker import ThreadWorker
from profiling.trace.clock import SystemClock
from tests.fakes.engines import FakeAsr, FakeAsrStream, FakeLlm, FakeTts, FakeVad, FakeVadStream

WORDS = ("hello", "how", "are", "you", "what", "time", "story", "please", "go", "on", "okay", "ten", "red", "green")
WORD_S = 0.2
LOWEST_HZ, STEP_HZ = 400, 150
Samples = NDArray[np.float32]


class BusyClock(SystemClock):
    """What takes time, takes it."""

    def work(self, seconds: float) -> None:
        time.sleep(seconds)


def speech(text: str, rate_hz: int = CAPTURE_RATE_HZ) -> Samples:
    times = np.arange(round(WORD_S * rate_hz)) / rate_hz
    tones = [np.sin(2 * np.pi * (LOWEST_HZ + STEP_HZ * WORDS.index(word)) * times) for word in words_of(text)]
    return (0.4 * np.concatenate([*tones, np.zeros(0)])).astype(np.float32)


def words_of(text: str) -> list[str]:
    return [word for word in text.lower().replace(".", " ").replace(",", " ").split() if word in WORDS]


def recognise(samples: Samples, rate_hz: int = CAPTURE_RATE_HZ) -> str:
    """The words that last for 60 ms at least, one after another; silence around and holes within them do no harm. The
    same word twice in a row counts once."""
    size = rate_hz // 50
    whole = samples[: len(samples) // size * size].reshape(-1, size)
    loud = whole[np.sqrt(np.mean(whole**2, axis=1)) > 0.1] if len(whole) else whole
    spectra = np.abs(np.fft.rfft(loud * np.hanning(size), 4096))
    tones = np.argmax(spectra, axis=1) * rate_hz / 4096 if len(loud) else ()
    places = [min(len(WORDS) - 1, max(0, round((tone - LOWEST_HZ) / STEP_HZ))) for tone in tones]
    words = [WORDS[place] for place, run in groupby(places) if len(list(run)) >= 3]
    return " ".join(word for word, _ in groupby(words))


class ToneVad(FakeVad):
    def open(self, start_sample: int = 0) -> FakeVadStream:
        return _ToneVadStream(self, start_sample)


class _ToneVadStream(FakeVadStream):
    def push(self, samples: Samples) -> list[VadFrame]:
        frames: list[VadFrame] = []
        self._rest = np.concatenate([self._rest, samples])
        while len(self._rest) >= 512:
            frame, self._rest = self._rest[:512], self._rest[512:]
            loud = float(np.sqrt(np.mean(frame**2))) > 0.1
            frames.append(VadFrame(self._sample, self._sample + 512, 0.9 if loud else 0.02))
            self._sample += 512
        return frames


class _ToneAsrStream(FakeAsrStream):
    def _transcribe(self, samples: Samples, cost_s: float):
        deaf, self.engine.deaf = self.engine.deaf, True
        heard = super()._transcribe(samples, cost_s)
        self.engine.deaf = deaf
        object.__setattr__(heard, "text", recognise(self.audio))
        return heard


class ToneAsr(FakeAsr):
    def open(self) -> FakeAsrStream:
        return _ToneAsrStream(self)


class EchoLlm(FakeLlm):
    """Says what the user said last, after "okay"."""

    def generate(
        self, messages: Sequence[Message], *, thinking_tokens: int, max_tokens: int, should_stop
    ) -> Iterator[Prefill | Token | Finished]:
        self.replies = [f"Okay {messages[-1].content}."]
        return super().generate(
            messages, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=should_stop
        )


@dataclass
class ToneTts(FakeTts):
    patches: list[int] = field(default_factory=list)

    def synthesise(self, text: str, should_stop) -> Iterator[Setup | Patch]:
        start_ns = self.clock.now_ns()
        self.clock.work(self.setup_cost_s)
        audio, words = speech(text, self.sample_rate), len(text.split())
        ends = tuple((i + 1) / words for i in range(words))
        yield Setup(start_ns, self.clock.now_ns(), {}, len(text), ends, len(audio) / self.sample_rate)
        size = round(self.patch_s * self.sample_rate)
        for start in range(0, len(audio), size):
            if should_stop():
                return
            start_ns = self.clock.now_ns()
            self.clock.work(self.patch_cost_s)
            yield Patch(audio[start : start + size], start_ns, self.clock.now_ns(), {}, forwards=1)


def tone_engines() -> Engines:
    clock = BusyClock()
    workers = Workers(*(ThreadWorker(name, clock) for name in ("asr", "smart-turn", "llm", "tts")))
    asr = ToneAsr(clock, step_cost_s=0.005, finalize_cost_s=0.01)
    llm = EchoLlm(clock, prefill_cost_s=0.02, token_cost_s=0.002)
    tts = ToneTts(clock, setup_cost_s=0.01, patch_cost_s=0.02)
    return Engines(ToneVad(), None, asr, llm, tts, workers)


def tone_settings(**others: object) -> Settings:
    return load(None, {"endpoint": {"mode": "hangover", "hangover_s": 0.4}, **others})
