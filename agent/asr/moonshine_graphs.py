"""Moonshine's encoder and decoder graphs, and greedy decoding with a draft."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.asr.moonshine_sound import HOP, RATE_HZ, Sound
from agent.asr.protocol import ShouldStop
from agent.onnx import check_graph, open_session, run

START, END = 1, 2  # token ids
SILENCE_FRAMES = 33
SILENCE_S = SILENCE_FRAMES * HOP / RATE_HZ
"""A segment is encoded with 0.4 s of silence after it. On sound that breaks off, Moonshine tends to jump back and
repeat itself: of 80 windows cut out of running speech, 13 had four wrong words or more without it, 2 with it."""
_LAYERS, _HEADS, _HEAD_SIZE = 8, 8, 52
_LOOP_COPIES, _LOOP_TOKENS = 3, 9

Cache = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Hypothesis:
    """Greedy tokens of a segment without start and end, the decoder positions evaluated, and whether it is finished."""

    tokens: tuple[int, ...]
    evaluated: int
    complete: bool


class Encoder:
    """The graph from features to the keys and values that the decoder's cross attention reads."""

    def __init__(self, path: Path, threads: int) -> None:
        self._session = open_session(path, threads)
        self._outputs = _cache_names("encoder")
        check_graph(self._session, path, ["features", "mean", "deviation"], self._outputs, "Moonshine's encoder")

    def run(self, sound: Sound) -> Cache:
        """Encode a whole segment: 16 arrays (1, heads, frames, head size) by their names in the decoder."""
        return dict(zip(self._outputs, run(self._session, self._outputs, sound.inputs(SILENCE_FRAMES)), strict=True))


class Decoder:
    """The graph of the decoder: tokens and caches in, logits and the longer cache out.

    The graph scales the activations of each position on their own, and it is always run on two positions or more
    (matrix products of one row round otherwise), so the logits of a position are the same to the bit whatever is
    evaluated beside it. That is what makes a verified draft equal to plain greedy decoding.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._session = open_session(path, threads)
        self._past = _cache_names("decoder")
        self._outputs = ["logits", *(name.replace("past_key_values", "present") for name in self._past)]
        inputs = ["input_ids", *self._past, *_cache_names("encoder")]
        check_graph(self._session, path, inputs, self._outputs, "Moonshine's decoder")
        self._empty = {name: np.zeros((1, _HEADS, 0, _HEAD_SIZE), np.float32) for name in self._past}

    def greedy(
        self,
        encoded: Cache,
        max_tokens: int,
        should_stop: ShouldStop,
        *,
        forced: Sequence[int] = (),
        draft: Sequence[int] = (),
    ) -> Hypothesis:
        """The most likely token at each position, after the `forced` ones, until the end token or `max_tokens`.

        `draft` guesses what follows the forced tokens and changes nothing but the cost: as much of it as is right is
        evaluated in one call. `should_stop` is asked before each call; a stopped hypothesis is not complete.
        """
        tokens = list(forced)
        feed = [START, *forced, *draft[: max(0, max_tokens - len(forced))]]
        row = len(forced)  # of `feed`, the row that predicts the next token
        likely_last = draft[-1] if draft else START  # a new word most often comes before the old full stop
        if len(feed) == 1:
            feed = [*feed, likely_last]
        past, cached, evaluated = self._empty, 0, 0
        while not should_stop():
            best, past = self._evaluate(feed, encoded, past)
            evaluated += len(feed)
            while True:
                token = int(best[row])
                if token == END or len(tokens) >= max_tokens:
                    return Hypothesis(tuple(tokens), evaluated, True)
                tokens.append(token)
                if end := before_loop(tokens):
                    return Hypothesis(tuple(tokens[:end]), evaluated, True)
                if row + 1 == len(feed) or feed[row + 1] != token:
                    break
                row += 1
            cached += row + 1
            past = {name: value[:, :, :cached] for name, value in past.items()}
            feed, row = [token, likely_last], 0
        return Hypothesis(tuple(tokens), evaluated, False)

    def _evaluate(self, feed: Sequence[int], encoded: Cache, past: Cache) -> tuple[NDArray[np.int64], Cache]:
        """The most likely token after each of `feed`, and the decoder's cache with `feed` added."""
        feeds = {"input_ids": np.array([feed], np.int64), **encoded, **past}
        logits, *caches = run(self._session, self._outputs, feeds)
        return logits[0].argmax(axis=-1), dict(zip(self._past, caches, strict=True))


def _cache_names(side: str) -> list[str]:
    return [f"past_key_values.{layer}.{side}.{part}" for layer in range(_LAYERS) for part in ("key", "value")]


def before_loop(tokens: Sequence[int]) -> int | None:
    """When `tokens` end in three copies or more of one phrase, nine tokens or more in all: how many tokens there are up
    to the end of the first copy. None when they do not."""
    for period in range(1, len(tokens) // _LOOP_COPIES + 1):
        copies = max(_LOOP_COPIES, -(-_LOOP_TOKENS // period))
        end = len(tokens) - (copies - 1) * period
        if end >= period and tokens[end - period : -period] == tokens[end:]:
            while end >= 2 * period and tokens[end - 2 * period : end - period] == tokens[end - period : end]:
                end -= period
            return end
    return None
