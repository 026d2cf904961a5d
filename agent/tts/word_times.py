"""When each word of a phrase has been spoken, from the frames that the voice gave to each phoneme."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from agent.tts.phonemizers import PAUSES

_T = TypeVar("_T")

_CLOSERS = "\"'”’)]}»"


@dataclass(frozen=True)
class _Spoken:
    """A run of phonemes between two spaces. `end` is the frame after its last sound."""

    end: int
    closes_clause: bool


def word_ends(text: str, phonemes: str, frames: Sequence[int]) -> tuple[float, ...]:
    """One fraction (0 to 1) of the phrase's frames per whitespace-separated word of `text`; never falling, the last one
    1.

    `frames[i]` is the frame after phoneme `i` of `phonemes`, and the last entry of `frames`, one more than phonemes, is
    the phrase's length. Words and groups of phonemes are matched clause by clause, since both sides keep the
    punctuation. In a clause where the numbers of words and of groups differ ("of the" is spoken as one) the clause's
    time is shared by the words' letters. A word without letters ends with the word before it.
    """
    words = text.split()
    total = frames[-1]
    if not words or total <= 0:
        return (1.0,) * len(words)
    spoken = [word for word in words if _has_letters(word)]
    ends = iter(_spoken_ends(spoken, _groups(phonemes, frames), total))
    fractions: list[float] = []
    for word in words:
        before = fractions[-1] if fractions else 0.0
        fractions.append(min(1.0, next(ends) / total) if _has_letters(word) else before)
    fractions[-1] = 1.0
    return tuple(fractions)


def _spoken_ends(words: list[str], groups: list[_Spoken], total: int) -> list[float]:
    word_clauses = _clauses(words, [word.rstrip(_CLOSERS)[-1:] in PAUSES for word in words])
    group_clauses = _clauses(groups, [group.closes_clause for group in groups])
    if len(word_clauses) != len(group_clauses):
        return _shared(words, 0, groups[-1].end if groups else total)
    ends: list[float] = []
    start = 0
    for clause, spoken in zip(word_clauses, group_clauses, strict=True):
        same = len(clause) == len(spoken)
        ends.extend([group.end for group in spoken] if same else _shared(clause, start, spoken[-1].end))
        start = spoken[-1].end
    return ends


def _shared(words: list[str], start: int, end: int) -> list[float]:
    """The time from `start` to `end` shared among the words by their letters."""
    letters = list(accumulate(len(word) for word in words))
    return [start + (end - start) * count / letters[-1] for count in letters]


def _groups(phonemes: str, frames: Sequence[int]) -> list[_Spoken]:
    groups: list[_Spoken] = []
    end, sounds, pauses = 0, False, False
    for phoneme, frame in zip(phonemes + " ", frames, strict=True):
        if phoneme == " ":
            if sounds:
                groups.append(_Spoken(end, pauses))
            sounds = pauses = False
        elif phoneme in PAUSES:
            pauses = True
        else:
            end, sounds = frame, True
    return groups


def _clauses(items: Sequence[_T], closes: Sequence[bool]) -> list[list[_T]]:
    clauses: list[list[_T]] = []
    is_open = False
    for item, closed in zip(items, closes, strict=True):
        if not is_open:
            clauses.append([])
        clauses[-1].append(item)
        is_open = not closed
    return clauses


def _has_letters(word: str) -> bool:
    return any(character.isalnum() for character in word)
