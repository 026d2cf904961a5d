"""Cuts a reply into phrases while it is being generated: a short first one, so that the voice starts early, then longer
ones.

The cutter reads character by character and cuts as soon as what it has read proves a boundary. So the phrases depend on
the text alone, not on how it arrives in tokens; a token only decides the moment. Proof is what follows the mark: a
space after a comma, a capital after a period and a space, nothing at all after a Chinese full stop. A language model's
token " The" carries both.

Own code, because the libraries for it serve other ends: pysbd and sentencex split finished texts; sentence-stream waits
for the next sentence's start and knows no clauses; stream2sentence pulls from an asynchronous stream and strips the
text, while history needs each character exactly once.
"""

from dataclasses import dataclass

from agent.tts.boundaries import (
    CLAUSE_MARKS_AT_ONCE,
    SENTENCE_MARKS_AT_ONCE,
    Strength,
    gap_quality,
    inside_construct,
    is_cjk,
    size,
    strength,
)


@dataclass(frozen=True)
class Phrase:
    """A piece of the reply, exactly as generated, white space and markdown included. The phrases of a reply join to its
    text."""

    text: str
    index: int


@dataclass(frozen=True)
class Limits:
    """Sizes in words (a Chinese or Japanese character is 0.4 words): the least that may end at a sentence's and at a
    clause's end, and the size from which the phrase is cut between words if no such end has come."""

    sentence_words: float
    clause_words: float
    most_words: float


_GAP_SEARCH_CHARACTERS = 200

FIRST_PHRASE = Limits(sentence_words=0.5, clause_words=1.5, most_words=7)
LATER_PHRASES = Limits(sentence_words=3, clause_words=10, most_words=28)


class PhraseCutter:
    """The cutter of one reply."""

    def __init__(self, first: Limits = FIRST_PHRASE, later: Limits = LATER_PHRASES) -> None:
        self._first = first
        self._later = later
        self._pending = ""
        self._index = 0

    def push(self, text: str) -> list[Phrase]:
        """Take the next piece of the reply and return the phrases that it completes."""
        phrases: list[Phrase] = []
        for character in text:
            self._pending += character
            cut = self._find_cut()
            if cut:
                phrases.append(self._take(cut))
        return phrases

    def flush(self) -> list[Phrase]:
        """The reply is complete: what is left is the last phrase, even if there is nothing to say in it."""
        return [self._take(len(self._pending))] if self._pending else []

    def _take(self, cut: int) -> Phrase:
        phrase = Phrase(self._pending[:cut], self._index)
        self._pending = self._pending[cut:]
        self._index += 1
        return phrase

    def _find_cut(self) -> int:
        """Where to cut the pending text now that its last character is known; 0: nowhere yet."""
        limits = self._later if self._index else self._first
        position, found = self._newest_boundary()
        needed = limits.sentence_words if found is Strength.SENTENCE else limits.clause_words
        if found and self._may_cut(position, needed):
            return position
        return self._gap(limits) if self._ends_word() and size(self._pending) >= limits.most_words else 0

    def _newest_boundary(self) -> tuple[int, Strength]:
        """The one boundary that the last character may have proved, as a position in the pending text."""
        text, last = self._pending, self._pending[-1]
        if last in SENTENCE_MARKS_AT_ONCE:
            return len(text), Strength.SENTENCE
        if last in CLAUSE_MARKS_AT_ONCE and not text[-2:-1].isdigit():
            return len(text), Strength.CLAUSE
        body = text[:-1].rstrip(" \t\u3000")
        if not body or not (last.isspace() or is_cjk(last) or len(body) < len(text) - 1):
            return 0, Strength.NONE
        return len(body), strength(body, text[len(body) :])

    def _may_cut(self, position: int, needed: float) -> bool:
        text = self._pending[:position]
        said = size(text)
        return (
            said >= needed and said > 0 and not inside_construct(text, self._pending[position : position + 1] == "\n")
        )

    def _ends_word(self) -> bool:
        return self._pending[-1].isspace() or is_cjk(self._pending[-1])

    def _gap(self, limits: Limits) -> int:
        """The best gap between two words of the pending text, the latest among equals; 0 if none will do."""
        text = self._pending.rstrip()
        if inside_construct(text, ends_line=True):
            return 0
        best, best_quality = 0, 0
        for position in range(max(1, len(text) - _GAP_SEARCH_CHARACTERS), len(text)):
            if not (text[position].isspace() or is_cjk(text[position])) or text[position - 1].isspace():
                continue
            quality = gap_quality(text[:position], text[position:])
            if quality and quality >= best_quality and self._may_cut(position, limits.clause_words):
                best, best_quality = position, quality
        return best
