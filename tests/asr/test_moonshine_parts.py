"""Moonshine's parts: features that do not depend on packets, drafts that change nothing, loops, cuts and words."""

import numpy as np
import pytest
from numpy.typing import NDArray

from agent import models
from agent.asr.moonshine_cut import overlap, quietest
from agent.asr.moonshine_graphs import SILENCE_FRAMES, Decoder, Encoder, before_loop
from agent.asr.moonshine_sound import HOP, Frontend, Sound
from agent.asr.moonshine_tokenizer import Tokenizer
from agent.scenario import load_scenario

Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def frontend() -> Frontend:
    return Frontend(models.locate("moonshine-base-en") / "frontend.onnx", threads=1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(models.locate("moonshine-base-en") / "tokenizer.bin")


def recording(name: str, number: int = 0) -> Samples:
    return load_scenario(name).utterances[number].recording.samples


def never() -> bool:
    return False


@pytest.mark.parametrize("size", [77, 511, 5_120])
def test_features_are_the_same_to_the_bit_in_any_packets(frontend: Frontend, size: int) -> None:
    samples = recording("go-forward")[:20_001]
    whole, pieces = Sound(frontend, samples), Sound(frontend)
    for start in range(0, len(samples), size):
        pieces.push(samples[start : start + size])
    for silence in (0, SILENCE_FRAMES):
        one, other = whole.inputs(silence), pieces.inputs(silence)
        assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_silence_after_a_segment_is_what_zeros_would_be(frontend: Frontend) -> None:
    samples = recording("do-something")[:16_000]
    appended = Sound(frontend, samples).inputs(SILENCE_FRAMES)
    zeros = np.zeros(SILENCE_FRAMES * HOP, np.float32)
    pushed = Sound(frontend, np.concatenate([samples, zeros])).inputs()
    frames = pushed["features"].shape[2]
    assert abs(frames - appended["features"].shape[2]) <= 1
    assert np.allclose(pushed["features"], appended["features"][:, :, :frames], atol=1e-5)
    assert pushed["mean"] == pytest.approx(appended["mean"], rel=0.02)
    assert pushed["deviation"] == pytest.approx(appended["deviation"], rel=0.02)


def test_a_segment_is_cut_in_two(frontend: Frontend) -> None:
    samples = recording("go-forward")[:30_000]
    sound = Sound(frontend, samples)
    for part, expected in ((sound.after(12_345), samples[12_345:]), (sound.before(12_345), samples[:12_345])):
        assert len(part) == len(expected)
        assert np.array_equal(part.inputs()["features"], Sound(frontend, expected).inputs()["features"])
    assert sound.powers(160).shape == (187,)


def test_a_draft_changes_the_cost_and_nothing_else(frontend: Frontend) -> None:
    folder = models.locate("moonshine-base-en")
    encoder, decoder = Encoder(folder / "encoder.onnx", threads=1), Decoder(folder / "decoder.onnx", threads=1)
    heard: list[tuple[int, ...]] = []
    for sound in (recording("do-something"), recording("sense-and-sensibility"), recording("playing-cards", 4)):
        encoded = encoder.run(Sound(frontend, sound))
        plain = decoder.greedy(encoded, 60, never)
        assert plain.complete and len(plain.tokens) > 4
        tokens = plain.tokens
        half = len(tokens) // 2
        spoiled = (*tokens[:half], tokens[half] + 1, *tokens[half + 1 :])
        drafts = [tokens, tokens[:half], spoiled, (*tokens, *tokens), tokens[1:], *heard]
        for draft in drafts:
            assert decoder.greedy(encoded, 60, never, draft=draft).tokens == tokens
            assert decoder.greedy(encoded, 60, never, forced=tokens[:3], draft=draft[3:]).tokens == tokens
        assert decoder.greedy(encoded, 60, never, draft=tokens).evaluated == len(tokens) + 1 < plain.evaluated
        assert decoder.greedy(encoded, 4, never, draft=tokens).tokens == tokens[:4]
        heard.append(tokens)


def test_decoding_stops_between_calls(frontend: Frontend) -> None:
    folder = models.locate("moonshine-base-en")
    encoder, decoder = Encoder(folder / "encoder.onnx", threads=1), Decoder(folder / "decoder.onnx", threads=1)
    encoded = encoder.run(Sound(frontend, recording("do-something")))
    whole = decoder.greedy(encoded, 60, never)
    answers = iter([False, False, False, True])
    stopped = decoder.greedy(encoded, 60, lambda: next(answers))
    assert not stopped.complete and 3 <= len(stopped.tokens) < len(whole.tokens)
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([1, 2, 3, 4, 5], None),
        ([1, 7, 7, 7, 7], None),  # "no no no no" may well be said
        ([1, *[7] * 9], 2),
        ([1, *[7, 8] * 4], None),
        ([1, *[7, 8] * 5], 3),
        ([1, *[7, 8, 9] * 2], None),
        ([1, *[7, 8, 9] * 3], 4),
        ([1, *[7, 8, 9] * 5], 4),
        ([*range(10, 16), *range(10, 16), *range(10, 16)], 6),
    ],
)
def test_a_phrase_over_and_over_is_a_loop(tokens: list[int], kept: int | None) -> None:
    assert before_loop(tokens) == kept


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("he was not an old man unless", "Old man, unless", (4, 3)),
        ("then leisure to consider how", "sure to consider how", (2, 3)),
        ("young man unless to be rather", "those young men are less to be rather", (0, 1)),
        ("young man unless to be", "for all the people to be", None),
        ("four of clubs five of clubs", "five of clubs", (3, 3)),
        ("five five five", "five five", (1, 2)),
        ("one two three", "four five", None),
        ("one two three", "", None),
        ("", "one", None),
    ],
)
def test_where_a_new_segment_takes_over(old: str, new: str, found: tuple[int, int] | None) -> None:
    assert overlap(old.split(), new.split()) == found


def test_the_quietest_stretch_is_the_longer_one() -> None:
    powers = np.ones(300)
    powers[120:124] = 0  # a stop consonant
    powers[200:215] = 0  # a gap between words
    assert 203 <= quietest(powers, 100, 290) <= 211
    assert 118 <= quietest(powers, 100, 180) <= 126


def test_tokens_are_words(tokenizer: Tokenizer) -> None:
    he, was, comma = (next(i for i in range(3, 32_000) if tokenizer.text([i]) == text) for text in (" He", " was", ","))
    assert tokenizer.text([1, he, was, comma, 2]) == " He was,"
    assert tokenizer.words([he, was, comma]) == [(he,), (was, comma)]
    euro = [byte + 3 for byte in "€".encode()]
    assert tokenizer.text(euro) == "€" and tokenizer.text(euro[:2]) == ""
