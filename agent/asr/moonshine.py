"""Moonshine, an offline recogniser, used as a streaming one.

Each step encodes the current segment of the utterance anew and verifies the last hypothesis as a draft, so its text is
what plain greedy decoding of the same sound gives. A segment that reaches its limit is cut at its quietest recent
point. The sound from the cut on is then heard twice, by the old segment and by the new one. Where their words begin to
agree the new one takes over: it is made to begin with those words as the old one wrote them, and what stands before
them is committed.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.asr.moonshine_cut import overlap, quietest
from agent.asr.moonshine_graphs import SILENCE_S, Decoder, Encoder, Hypothesis
from agent.asr.moonshine_sound import RATE_HZ, Frontend, Sound
from agent.asr.moonshine_tokenizer import Tokenizer
from agent.asr.protocol import ShouldStop, Transcript
from agent.errors import TurnscopeError
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, SystemClock
from profiling.trace.timeline import Attribute

_TOKENS_PER_S, _TOKENS_MORE = 6.5, 2  # more than that is not speech
_LOUDNESS_SPAN = 160  # samples (10 ms)
_SILENT_POWER = 10 ** (-60 / 10)  # a segment that is nowhere louder is not decoded
_SHORTEST_S = 0.1  # nor is one that is shorter
_SHORTEST_CHUNK_MS = 10
_CUT_FROM_S, _CUT_TO_S = 2.4, 1.0  # a segment is cut so long before its end
_OVER_LIMIT_S = 1.6  # for so long beyond the limit a cut waits for words on which both sides agree
_CARRIED_WORDS = 3  # at most so many of them are carried over the cut,
_UNSURE_WORDS = 2  # but not the last two: their sound may not be complete


@dataclass(frozen=True)
class _Model:
    """The loaded graphs; they keep nothing between two calls."""

    frontend: Frontend
    encoder: Encoder
    decoder: Decoder
    tokenizer: Tokenizer


class MoonshineEngine:
    """An `AsrEngine`. Streams share the model and may be interleaved; one step at a time per engine."""

    needs_whole_chunks = False
    chunks_ms: tuple[int, ...] = (80, 160, 320, 560, 1120)

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        threads: int = 1,
        chunk_ms: int = 320,
        language: str = "en-US",
        clock: Clock | None = None,
        segment_limit_s: float = 5.0,
    ) -> None:
        """Load the model in `folder`: frontend.onnx, encoder.onnx, decoder.onnx, tokenizer.bin.

        `chunk_ms` (10 or more) is the cadence of partial transcripts; `segment_limit_s` (3 or more) bounds what a step
        encodes. Raises TurnscopeError when a file is missing or of the wrong kind, the chunk is too short, or the
        language is not English.
        """
        if segment_limit_s < 3:
            raise ValueError(f"segment_limit_s is {segment_limit_s}: shorter than what a cut looks at")
        self._set_chunk(chunk_ms)
        self.model = name or folder.name
        if language.partition("-")[0].lower() != "en":
            raise TurnscopeError(f"The recogniser {self.model} knows English (en) only, not {language!r}.")
        self._model = _Model(
            Frontend(folder / "frontend.onnx", threads),
            Encoder(folder / "encoder.onnx", threads),
            Decoder(folder / "decoder.onnx", threads),
            Tokenizer(folder / "tokenizer.bin"),
        )
        self._clock = clock or SystemClock()
        self._segment_limit_s = segment_limit_s

    def with_chunk(self, chunk_ms: int) -> "MoonshineEngine":
        other = copy(self)
        other._set_chunk(chunk_ms)
        return other

    def _set_chunk(self, chunk_ms: int) -> None:
        if chunk_ms < _SHORTEST_CHUNK_MS:
            raise TurnscopeError(f"A chunk of {chunk_ms} ms is too short: choose {_SHORTEST_CHUNK_MS} ms or more.")
        self.attributes: Mapping[str, Attribute] = {v.ASR_CHUNK_S: chunk_ms / 1000}
        self._chunk_samples = chunk_ms * RATE_HZ // 1000

    def chunk_end(self, sample: int) -> int:
        return -(-sample // self._chunk_samples) * self._chunk_samples

    def open(self) -> "MoonshineStream":
        return MoonshineStream(self._model, self._clock, self._segment_limit_s)

    def warm_up(self) -> None:
        """Two steps over noise that swells like syllables: every graph, the decoder with and without a cache."""
        times = np.arange(RATE_HZ) / RATE_HZ
        swell = np.square(np.sin(2 * np.pi * 4 * times))
        noise = (np.random.default_rng(0).normal(0, 0.1, RATE_HZ) * swell).astype(np.float32)
        stream = self.open()
        stream.step(noise, lambda: False)
        stream.finalize(noise, lambda: False)


class MoonshineStream:
    """An `AsrStream`: the text committed so far and the segment that is still heard.

    A step that is stopped has taken its samples and changed nothing else; its transcript is the one before.
    """

    def __init__(self, model: _Model, clock: Clock, segment_limit_s: float) -> None:
        self.encoded_s = 0.0
        """Seconds of sound encoded so far. A second of speech is encoded once in each step that its segment lives."""
        self.evaluated_tokens = 0
        """Decoder positions evaluated so far."""
        self._model = model
        self._clock = clock
        self._segment_limit_s = segment_limit_s
        self._committed: tuple[int, ...] = ()
        self._carried: tuple[int, ...] = ()  # what the segment's hypothesis is made to begin with
        self._tokens: tuple[int, ...] = ()  # the segment's hypothesis
        self._heard = 0  # samples of the segment that the hypothesis covers
        self._sound = Sound(model.frontend)

    def step(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        start_ns, encoded_s, tokens = self._clock.now_ns(), self.encoded_s, self.evaluated_tokens
        while True:
            room = self._room()
            self._sound.push(samples[:room])
            samples = samples[room:]
            self._hear(should_stop)
            if self._sound.seconds >= self._segment_limit_s and self._heard == len(self._sound):
                self._cut(should_stop)
            if not len(samples):
                break
        text = tidy(self._model.tokenizer.text(self._committed + self._tokens))
        end_ns = self._clock.now_ns()
        return Transcript(text, start_ns, end_ns, self.encoded_s - encoded_s, self.evaluated_tokens - tokens)

    def finalize(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        return self.step(samples, should_stop)

    def _room(self) -> int:
        """How many samples the segment may grow by before it is heard and, at its limit, cut."""
        return round(max(self._segment_limit_s - self._sound.seconds, _OVER_LIMIT_S / 2) * RATE_HZ)

    def _hear(self, should_stop: ShouldStop) -> None:
        """Bring the hypothesis up to the segment's end."""
        if self._heard < len(self._sound):
            hypothesis = self._decode(self._sound, should_stop, self._carried, self._tokens)
            if hypothesis.complete:
                self._tokens, self._heard = hypothesis.tokens, len(self._sound)

    def _cut(self, should_stop: ShouldStop) -> None:
        """Commit what was said before the quietest recent point, and let a segment begin there."""
        earliest, latest = (len(self._sound) - round(back_s * RATE_HZ) for back_s in (_CUT_FROM_S, _CUT_TO_S))
        loudness = self._sound.powers(_LOUDNESS_SPAN)
        at = quietest(loudness, earliest // _LOUDNESS_SPAN, latest // _LOUDNESS_SPAN) * _LOUDNESS_SPAN
        rest = self._sound.after(at)
        heard = self._decode(rest, should_stop)
        if not heard.complete:
            return
        old, new = self._model.tokenizer.words(self._tokens), self._model.tokenizer.words(heard.tokens)
        agreed = overlap(self._texts(old), self._texts(new))
        if agreed is not None:
            start, length = agreed
            carried = max(1, min(length, _CARRIED_WORDS, len(old) - start - _UNSURE_WORDS))
            self._begin(rest, sum(old[:start], ()), sum(old[start : start + carried], ()), sum(old[start:], ()))
        elif not new or self._sound.seconds >= self._segment_limit_s + _OVER_LIMIT_S:
            before = self._decode(self._sound.before(at), should_stop, self._carried, self._tokens)
            if before.complete:
                self._begin(rest, before.tokens, (), heard.tokens)

    def _begin(
        self, sound: Sound, committed: tuple[int, ...], carried: tuple[int, ...], tokens: tuple[int, ...]
    ) -> None:
        """Commit, and go on with the segment `sound`, of which `tokens` is the hypothesis."""
        self._committed += committed
        self._carried, self._tokens = carried, tokens
        self._sound, self._heard = sound, len(sound)

    def _decode(
        self,
        sound: Sound,
        should_stop: ShouldStop,
        carried: tuple[int, ...] = (),
        last: tuple[int, ...] = (),
    ) -> Hypothesis:
        """What is said in `sound`, which begins with the `carried` words; `last` is the hypothesis before, a draft."""
        if sound.seconds < _SHORTEST_S or sound.powers(_LOUDNESS_SPAN).max() < _SILENT_POWER:
            return Hypothesis(carried, 0, True)
        if should_stop():
            return Hypothesis(carried, 0, False)
        encoded = self._model.encoder.run(sound)
        self.encoded_s += sound.seconds + SILENCE_S
        most = round(sound.seconds * _TOKENS_PER_S) + _TOKENS_MORE
        draft = last[len(carried) :]
        hypothesis = self._model.decoder.greedy(encoded, most, should_stop, forced=carried, draft=draft)
        self.evaluated_tokens += hypothesis.evaluated
        return hypothesis

    def _texts(self, words: list[tuple[int, ...]]) -> list[str]:
        return [self._model.tokenizer.text(word) for word in words]


def tidy(text: str) -> str:
    """The text without the model's stray quotation marks at either end, and with single spaces."""
    return " ".join(text.split()).strip(' "“”')
