"""From text to phonemes: what a Piper voice reads.

A phonemizer takes speakable text and returns one string of IPA code points (NFD): words separated by single spaces,
punctuation kept after the word before it. Piper voices were trained on the output of espeak-ng.

- `espeak`: espeak-ng itself, inside the package piper-tts, which is GPL-3.0. 0.3 ms a phrase. Imported only here, only
  when chosen.
- `gruut`: English without any GPL code. A lexicon of espeak's pronunciations for 124,000 words and a model that guesses
  the rest,
  from the MIT-licensed packages gruut and gruut-lang-en. Each word is read by itself: no linking ("of the"), no stress
  by context.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from agent.errors import TurnscopeError

Phonemize = Callable[[str], str]
PhonemizerName = Literal["espeak", "gruut"]

PAUSES = frozenset(",.;:?!")
# Words that gruut's lexicon has only as they sound before certain other words.
_BY_THEMSELVES = {"i": "aɪ", "can": "kæn", "it": "ɪt", "at": "æt"}
_GRUUT_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,.;:?!]")


def open_phonemizer(name: PhonemizerName, language: str) -> Phonemize:
    """The phonemizer called `name` for an espeak voice such as "en-us".

    Raises TurnscopeError when its package is not installed or does not know the language.
    """
    return _Gruut(language) if name == "gruut" else _Espeak(language)


class _Espeak:
    def __init__(self, voice: str) -> None:
        try:
            from piper.phonemize_espeak import EspeakPhonemizer
        except ImportError as error:
            raise TurnscopeError(
                "Piper voices need the package piper-tts (GPL-3.0), which is not installed: install Turnscope with its "
                "extra `cpu`, or with its extra `permissive` and choose the phonemizer gruut."
            ) from error
        self._voice = voice
        self._espeak = EspeakPhonemizer()
        try:
            self._espeak.phonemize(voice, "a")
        except (RuntimeError, ValueError) as error:
            raise TurnscopeError(
                f"espeak-ng has no voice {voice!r}; choose a Piper voice of another language."
            ) from error

    def __call__(self, text: str) -> str:
        sentences = self._espeak.phonemize(self._voice, text)
        return " ".join("".join(sentence).strip() for sentence in sentences)


class _Gruut:
    def __init__(self, voice: str) -> None:
        if voice != "en-us":
            raise TurnscopeError(
                f"The phonemizer gruut reads en-us, not {voice!r}; choose an en_US voice or the phonemizer espeak."
            )
        try:
            import gruut_lang_en
            from gruut.g2p import GraphemesToPhonemes
        except ImportError as error:
            raise TurnscopeError(
                "The phonemizer gruut needs the packages gruut and gruut-lang-en, which are not installed: install "
                "Turnscope with its extra `permissive`."
            ) from error
        folder = Path(str(gruut_lang_en.__file__)).parent / "espeak"
        self._lexicon = _read_lexicon(folder / "lexicon.db")
        self._guess = GraphemesToPhonemes(folder / "g2p" / "model.crf")

    def __call__(self, text: str) -> str:
        said = ""
        for token in _GRUUT_TOKEN.findall(text.replace("’", "'")):
            if token in PAUSES:
                said += token if said and said[-1] not in PAUSES else ""
            else:
                said += (" " if said else "") + self._word(token)
        return unicodedata.normalize("NFD", said)

    def _word(self, word: str) -> str:
        if word.isupper() and 1 < len(word) <= 4:  # an initialism is spelled
            return "".join(self._word(letter) for letter in word)
        known = self._lexicon.get(word.lower())
        return known if known is not None else "".join(self._guess(word.lower()))


def _read_lexicon(path: Path) -> dict[str, str]:
    """Word -> its most usual pronunciation. Read whole (0.2 s): the file has no index, so one look-up would scan it for
    7 ms."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT word, phonemes FROM word_phonemes ORDER BY pron_order DESC")
        return {word: phonemes.replace(" ", "") for word, phonemes in rows} | _BY_THEMSELVES
