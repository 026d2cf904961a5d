"""The parts of Nemotron's engine: features of a stream, and text of tokens that keep coming."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from agent.asr.nemotron_features import FeatureStream
from agent.asr.nemotron_text import GrowingText
from tests.asr.nemotron_tools import tiny_engine, tiny_library
from tests.tiny_models.nemotron import babble


def test_features_of_a_stream_are_those_of_the_whole_sound() -> None:
    sound = babble(5.3)
    signal = torch.from_numpy(sound)[None]
    whole, _ = tiny_library().preprocessor(input_signal=signal, length=torch.tensor([len(sound)]))
    opened, random, parts = (
        FeatureStream(tiny_library().preprocessor, torch.device("cpu")),
        np.random.default_rng(2),
        [],
    )
    for packet in np.array_split(sound, 97):
        opened.push(packet)
        while opened.has(frames := int(random.integers(1, 30))):
            parts.append(opened.take(frames))
    streamed = torch.cat(parts, dim=-1)
    assert streamed.shape[-1] > 450
    assert (streamed - whole[:, :, : streamed.shape[-1]]).abs().max() <= 1e-5


def test_text_that_grows_is_what_the_library_makes_of_all_tokens() -> None:
    tiny_engine()  # its decoding strips language tags
    decoding, random = tiny_library().decoding, np.random.default_rng(0)
    for _ in range(30):
        tokens = random.choice([1, 2, 3, 4, 5, *range(6, 120)], size=40, p=[0.08] * 5 + [0.6 / 114] * 114).tolist()
        text = GrowingText(decoding)
        for part in np.array_split(tokens, int(random.integers(1, 40))):
            text.add(part.tolist())
            assert "<en-US>" not in str(text)
        assert str(text) == decoding.decode_tokens_to_str_with_strip_punctuation(tokens)


def growing(decode: Callable[[list[int]], list[str]]) -> GrowingText:
    decoding = tiny_library().decoding
    tokenizer: Any = SimpleNamespace(ids_to_tokens=decode)
    known: Any = SimpleNamespace(
        tokenizer=tokenizer,
        lang_tag_pattern=decoding.lang_tag_pattern,
        supported_punctuation={"."},
        space_before_punct_pattern=decoding.space_before_punct_pattern,
    )
    return GrowingText(known)


def test_what_comes_in_pieces_is_joined() -> None:
    tiny_engine()
    pieces = ["▁h", "i", "▁<", "en-", "US>", "▁.", "<unk>", "▁", "<0xE4>", "<0xBD>", "<0xA0>", "▁you"]
    text, seen = growing(lambda ids: [pieces[number] for number in ids]), []
    for number in range(len(pieces)):
        text.add([number])
        seen.append(str(text))
    assert seen[:5] == ["h", "hi", "hi <", "hi <en-", "hi"]
    assert seen[5:] == ["hi.", "hi.", "hi.", "hi.", "hi.", "hi. 你", "hi. 你 you"]
