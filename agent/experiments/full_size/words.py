"""A vocabulary of ordinary words for models with random weights: what they say can be read aloud, and a prompt is about
as many tokens as it has words."""

import re
from collections.abc import Iterable

from agent.llm.prompts import EXAMPLES, SYSTEM_PROMPT

BEGINS_WORD = "▁"
STOPS = (".", ",", "?", "!")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'-:;()"
_COMMON = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could my "
    "people than first water been call who oil its now find long down day did get come made may part yes well sure "
    "hello weather today sunny rain music light right set timer minutes done sorry repeat"
)
SPOKEN = tuple(_COMMON.split())
WORDS = tuple(
    dict.fromkeys((*SPOKEN, *re.findall(r"[A-Za-z]+", " ".join([SYSTEM_PROMPT, *(m.content for m in EXAMPLES)]))))
)


def words_and_merges(words: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The pieces of a byte-pair vocabulary in which every beginning of every word is one, letter by letter, so that
    merging reaches the words; and the merges."""
    pieces = dict.fromkeys([BEGINS_WORD, *LETTERS, *STOPS])
    merges: list[tuple[str, str]] = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in pieces:
                pieces[word[:end]] = None
                merges.append((word[: end - 1], word[end - 1]))
    return list(pieces), merges


def phrase(words: int, start: int) -> str:
    """So many words, other ones for another `start`."""
    return " ".join(SPOKEN[(start + at) % len(SPOKEN)] for at in range(words))
