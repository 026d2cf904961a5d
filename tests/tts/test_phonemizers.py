"""Phonemes from espeak-ng and, without any GPL code, from gruut."""

import json
import sys

import pytest

from agent.errors import TurnscopeError
from agent.models import locate
from agent.tts.phonemizers import PhonemizerName, open_phonemizer


@pytest.mark.parametrize("name", ["espeak", "gruut"])
def test_words_are_parted_by_spaces_and_keep_their_punctuation(name: PhonemizerName) -> None:
    assert open_phonemizer(name, "en-us")("Sure, I can help you; what is it?") == "ʃˈʊɹ, aɪ kæn hˈɛlp juː; wˌʌt ɪz ɪt?"


@pytest.mark.parametrize("name", ["espeak", "gruut"])
def test_the_voice_knows_every_phoneme(name: PhonemizerName) -> None:
    known = json.loads((locate("piper-en-us-joe") / "voice.json").read_text(encoding="utf-8"))["phoneme_id_map"]
    text = "Doctor Blorptastic's turnscope judged the very unusual garage, though; measure it, NASA and AI! Enough?"
    assert set(open_phonemizer(name, "en-us")(text)) <= known.keys()


def test_sentences_are_joined() -> None:
    assert open_phonemizer("espeak", "en-us")("Yes! No.") == "jˈɛs! nˈoʊ."


def test_gruut_spells_initialisms_and_guesses_unknown_words() -> None:
    phonemize = open_phonemizer("gruut", "en-us")
    assert phonemize("TV") == phonemize("t") + phonemize("v")
    assert phonemize("blorptastic")
    assert phonemize("DON’T") == phonemize("don't")


@pytest.mark.parametrize(("name", "module"), [("espeak", "piper.phonemize_espeak"), ("gruut", "gruut_lang_en")])
def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch, name: PhonemizerName, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TurnscopeError, match="not installed: install Turnscope with its extra"):
        open_phonemizer(name, "en-us")


@pytest.mark.parametrize("name", ["espeak", "gruut"])
def test_an_unknown_language_is_refused(name: PhonemizerName) -> None:
    with pytest.raises(TurnscopeError, match="xx-yy"):
        open_phonemizer(name, "xx-yy")
