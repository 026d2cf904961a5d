"""The voice is speech: Moonshine understands it, with either phonemizer."""

import re

import jiwer
import numpy as np
import pytest

from agent.asr.moonshine import MoonshineEngine
from agent.audio.resample import resample
from agent.models import locate
from agent.tts.phonemizers import PhonemizerName
from agent.tts.piper import PiperEngine
from agent.tts.protocol import Patch
from agent.tts.speakable import speakable

SENTENCES = [
    "The capital of France is Paris, and it is famous for its museums.",
    "I would recommend taking the train because it is faster than the bus.",
    "You should go forward 10 meters and then turn left at the corner.",
    "It costs $3.50, and the store opens at 10:30.",
]


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", speakable(text).lower()))


@pytest.mark.parametrize("phonemizer", ["espeak", "gruut"])
def test_a_recogniser_understands_the_voice(phonemizer: PhonemizerName) -> None:
    voice = PiperEngine(locate("piper-en-us-joe"), phonemizer=phonemizer)
    recogniser = MoonshineEngine(locate("moonshine-base-en"))
    heard: list[str] = []
    for sentence in SENTENCES:
        items = voice.synthesise(speakable(sentence), lambda: False)
        samples = np.concatenate([item.samples for item in items if isinstance(item, Patch)])
        sound = resample(samples, voice.sample_rate, 16_000)
        heard.append(words(recogniser.open().finalize(sound, lambda: False).text))
    assert jiwer.wer([words(sentence) for sentence in SENTENCES], heard) <= 0.15
