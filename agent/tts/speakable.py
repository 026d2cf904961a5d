"""From a phrase as the model wrote it to a text that a voice can read: no markdown, no emoji, no digits or signs."""

import re

import emoji

from agent.tts.boundaries import is_cjk
from agent.tts.plain import plain
from agent.tts.spoken_cjk import SCRIPTS
from agent.tts.spoken_en import spoken as spoken_english

_MAY_BE_EMOJI = re.compile(r"[©®‼⁉™ℹ\u2190-\u21ff\u2300-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff]")
_KEPT_SIGNS = "→↔←⇒"
_MARKS = re.compile(r"[*`#|~\\]")
_SPACES = re.compile(r"\s+")
_STRAY_PAUSES = re.compile(r"^[\s,;:.]+|(?<=[,;:])[\s,;:]*[,;:](?=\s|$)")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[,.;:!?](?:\s|$))")
_MARK_PAIRS = re.compile(r"[,;:](?=[.!?])|(?<=[.!?])[,;:](?=\s|$)|(?<=\.)\.+")


def speakable(text: str, language: str = "en") -> str:
    """What a voice should say for the phrase `text`, a fragment of markdown; "" when there is nothing to say.

    `language` is an ISO 639 code, with or without a region: en, zh, ja and ko are known; another language keeps its
    numbers. Text in Chinese, Japanese or Korean letters is treated as such whatever `language` says. The first call
    takes some 15 ms and later ones well under 1 ms, so call it once before the first turn.
    """
    language = _script_of(text, language.partition("-")[0].lower())
    text = _without_emoji(plain(text, language))
    if language == "en":
        text = spoken_english(text)
    elif language in SCRIPTS:
        text = SCRIPTS[language].spoken(text)
    else:
        text = _MARKS.sub("", text)
    return _tidy(text)


def _script_of(text: str, language: str) -> str:
    """The language whose letters the text is written in, `language` where they do not tell. Han alone may be any of the
    three."""
    if text.isascii():
        return language
    if any("\uac00" <= character <= "\ud7a3" for character in text):
        return "ko"
    if any("\u3040" <= character <= "\u30ff" for character in text):
        return "ja"
    return "zh" if language not in SCRIPTS and any(map(is_cjk, text)) else language


def _without_emoji(text: str) -> str:
    return emoji.replace_emoji(text, _kept) if _MAY_BE_EMOJI.search(text) else text


def _kept(sign: str, _: object) -> str:
    return sign if sign in _KEPT_SIGNS else " "


def _tidy(text: str) -> str:
    """Single spaces, no space before a mark, one pause where rules left several, nothing at all when no letter is
    left."""
    if not any(character.isalnum() for character in text):
        return ""
    text = _SPACE_BEFORE_MARK.sub("", _SPACES.sub(" ", text))
    text = _MARK_PAIRS.sub("", _STRAY_PAUSES.sub("", text))
    return text.strip()
