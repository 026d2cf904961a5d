"""Moonshine, an offline recogniser, used as a streaming one.

Each step encodes the current segment of the utterance anew and verifies the last hypothesis as a draft, so its text is what
plain greedy decoding of the same sound gives. A segment that reaches its limit is cut at its quietest recent point. The
sound from the cut on is heard twice, by the old segment and by the new one; the words on which both agree are where the new
one takes over: it is made to begin with them as the old one wrote them, and what stands before them is committed.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.asr.moonshine_cut import overlap, quietest
from agent.asr.moonshine_graphs import SILENCE_S, Decoder, Encoder, Hypothesis
from agent.asr.moonshine_sound import RATE_HZ, Frontend, Sound
from agent.asr.moonshine_tokenizer import Tokenizer
from agent.asr.protocol import ShouldStop, Transcript
from profiling.trace.clock import Clock, SystemClock

_TOKENS_PER_S, _TOKENS_MORE = 6.5, 2
_SPAN = 160  # samples (10 ms) over which loudness is measured
_SHORTEST_S = 0.1  # less sound is not decoded
_SILENT_POWER = 10 ** (-60 / 10)  # a segment that is nowhere louder (over 10 ms) is not decoded
_CUT_FROM_S, _CUT_TO_S = 2.4, 1.0  # a segment is cut so long before its end
_OVER_LIMIT_S = 1.6  # for so long beyond the limit a cut waits until both sides agree on words
_EDGE_WORDS = 2
_CARRIED_WORDS = 3  # of those, so many are carried over the cut


@dataclass(frozen=True)
class _Model:
    """The loaded graphs; they keep nothing between two calls."""

    frontend: Frontend
    encoder: Encoder
    decoder: Decoder
    tokenizer: Tokenizer


class MoonshineEngine:
    """An `AsrEngine`. Streams share the model and may be interleaved; one step at a time per engine."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        threads: int = 1,
        clock: Clock | None = None,
        segment_limit_s: float = 5.0,
    ) -> None:
        """Load the model in `folder`: frontend.onnx, encoder.onnx, decoder.onnx, tokenizer.bin.

        `segment_limit_s` bounds what a step encodes. Raises TurnscopeError when a file is missing or of the wrong kind.
        """
        self.model = name or folder.name
        self._model = _Model(
            Frontend(folder / "frontend.onnx", threads),
            Encoder(folder / "encoder.onnx", threads),
            Decoder(folder / "decoder.onnx", threads),
            Tokenizer(folder / "tokenizer.bin"),
        )
        self._clock = clock or SystemClock()
        self._segment_limit_s = segment_limit_s

    def open(self) -> "MoonshineStream":
        return MoonshineStream(self._model, self._clock, self._segment_limit_s)

    def warm_up(self) -> None:
        """Two steps over noise: all graphs, with and without a cache."""
        noise = np.random.default_rng(0).normal(0, 0.05, RATE_HZ).astype(np.float32)
        stream = self.open()
        stream.step(noise, lambda: False)
        stream.finalize(noise, lambda: False)


class MoonshineStream:
    """An `AsrStream`: the text committed so far and the segment that is still heard.

    A step that is stopped has taken its samples; its transcript is that of the last step that was not.
    """

    def __init__(self, model: _Model, clock: Clock, segment_limit_s: float) -> None:
        self.encoded_s = 0.0
        """The sound encoded so far, in seconds; a second of speech is encoded once for each step that its segment lives."""
        self.evaluated_tokens = 0
        """The decoder positions evaluated so far."""
        self._model = model
        self._clock = clock
        self._segment_limit_s = segment_limit_s
        self._committed: tuple[int, ...] = ()
        self._carried: tuple[int, ...] = ()  # what the segment's hypothesis begins with
        self._tokens: tuple[int, ...] = ()  # the segment's last complete hypothesis
        self._decoded = 0  # how much of the segment it covers
        self._sound = Sound(model.frontend)

    def step(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        start_ns, encoded_s, tokens = self._clock.now_ns(), self.encoded_s, self.evaluated_tokens
        while True:
            room = self._room()
            self._sound.push(samples[:room])
            samples = samples[room:]
            self._decode_segment(should_stop)
            if self._sound.seconds >= self._segment_limit_s:
                self._cut(should_stop)
            if not len(samples):
                break
        text = self._model.tokenizer.text(self._committed + self._tokens)
        return Transcript(
            tidy(text),
            start_ns,
            self._clock.now_ns(),
            self.encoded_s - encoded_s,
            self.evaluated_tokens - tokens,
        )

    def finalize(self, samples: NDArray[np.float32], should_stop: ShouldStop) -> Transcript:
        return self.step(samples, should_stop)

    def _room(self) -> int:
        """How many samples the segment may grow by before it is decoded and, at its limit, cut."""
        room_s = max(self._segment_limit_s - self._sound.seconds, _OVER_LIMIT_S / 2)
        return round(room_s * RATE_HZ)

    def _decode_segment(self, should_stop: ShouldStop) -> None:
        if len(self._sound) == self._decoded:
            return
        hypothesis = self._decode(
            self._sound, should_stop, forced=self._carried, draft=self._tokens[len(self._carried) :]
        )
        if hypothesis.complete:
            self._tokens, self._decoded = hypothesis.tokens, len(self._sound)

    def _decode(
        self,
        sound: Sound,
        should_stop: ShouldStop,
        forced: tuple[int, ...] = (),
        draft: tuple[int, ...] = (),
    ) -> Hypothesis:
        if sound.seconds < _SHORTEST_S or sound.powers(_SPAN).max() < _SILENT_POWER:
            return Hypothesis(forced, 0, True)
        if should_stop():
            return Hypothesis(forced, 0, False)
        self.encoded_s += sound.seconds + SILENCE_S
        encoded = self._model.encoder.run(sound)
        max_tokens = round(sound.seconds * _TOKENS_PER_S) + _TOKENS_MORE
        hypothesis = self._model.decoder.greedy(encoded, max_tokens, should_stop, forced=forced, draft=draft)
        self.evaluated_tokens += hypothesis.evaluated
        return hypothesis

    def _cut(self, should_stop: ShouldStop) -> None:
        """Commit what was said before the quietest recent point and go on with a segment that begins there."""
        if self._decoded != len(self._sound):
            return
        first, last = (len(self._sound) - round(before_s * RATE_HZ) for before_s in (_CUT_FROM_S, _CUT_TO_S))
        at = quietest(self._sound.powers(_SPAN), first // _SPAN, last // _SPAN) * _SPAN
        rest = self._sound.after(at)
        heard = self._decode(rest, should_stop)
        if not heard.complete:
            return
        old, new = self._model.tokenizer.words(self._tokens), self._model.tokenizer.words(heard.tokens)
        both = overlap(self._texts(old), self._texts(new))
        if both is not None:
            start, length = both
            carried = max(1, min(length, _CARRIED_WORDS, len(old) - start - _EDGE_WORDS))
            self._begin(rest, old[:start], old[start : start + carried], old[start:])
        elif not new:
            self._begin(rest, old, [], [])
        elif self._sound.seconds >= self._segment_limit_s + _OVER_LIMIT_S:
            before = self._decode(self._sound.before(at), should_stop, forced=self._carried)
            if before.complete:
                self._begin(rest, [before.tokens], [], new)

    def _begin(
        self,
        sound: Sound,
        commit: list[tuple[int, ...]],
        carried: list[tuple[int, ...]],
        words: list[tuple[int, ...]],
    ) -> None:
        self._committed += sum(commit, ())
        self._carried, self._tokens = sum(carried, ()), sum(words, ())
        self._sound, self._decoded = sound, len(sound)

    def _texts(self, words: list[tuple[int, ...]]) -> list[str]:
        return [self._model.tokenizer.text(word) for word in words]


def tidy(text: str) -> str:
    return " ".join(text.split())
