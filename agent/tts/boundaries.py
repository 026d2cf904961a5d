"""Where a text may be cut so that the ear accepts it: ends of sentences, ends of clauses, gaps between words.

Every question is about one position of a text that is still growing, so each function sees the text before the position
and, where one is needed, what follows. Latin and Korean words are separated by spaces; Chinese and Japanese are not.
"""

import re
import unicodedata
from enum import IntEnum


class Strength(IntEnum):
    """How well the ear takes a cut. `NONE` is not a boundary."""

    NONE = 0
    CLAUSE = 1
    SENTENCE = 2


CLAUSE_MARKS_AT_ONCE = "，、；："  # nothing that follows can change what they are, a digit after a digit excepted
SENTENCE_MARKS_AT_ONCE = "。"
CJK_CLOSERS = "」』）》】〉〕”’"
_CLAUSE_MARKS = ",;:—…" + CLAUSE_MARKS_AT_ONCE
_SENTENCE_MARKS = "!?！？" + SENTENCE_MARKS_AT_ONCE
_CLOSERS = "\"')]}»*_`~" + CJK_CLOSERS
_CJK_OPENERS = "「『（《【〈〔“‘"
_CJK_PAIRS = dict(zip(CJK_CLOSERS, _CJK_OPENERS, strict=True))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "mr mrs ms mx dr prof st sr jr rev hon gov sen rep gen col capt lt sgt vs etc cf approx dept est fig figs vol inc "
    "ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun mt ft "
    "ave blvd rd ph.d e.g i.e"
)
_ENDING_INITIALS = frozenset(("a.m", "p.m"))  # other initials (U.S., J.) go on more often than they end
_BEFORE_NUMBERS = _words("no nos p pp art sec ch eq")
# A cut just before one of these words sounds natural.
_STARTERS = _words(
    "and but or nor so yet because that which who whom whose when while where if unless until although though since "
    "for with without in on at to from by as than into onto about after before between during through over under like"
)
# A cut just after one of these leaves the voice hanging.
_HANGING = _STARTERS | _words(
    "a an the of my your his her its our their this these those some any each every no not very too more most such is "
    "are was were be been am will would can could may might must shall should do does did has have had i he she we "
    "they i'm it's you're mr mrs ms dr prof"
)
# A cut just before one of these parts it from the word it belongs to.
_CLINGING = _words("me him them us it you is are was were of not ago too also percent degrees dollars")
_NO_START = frozenset(
    "的了吗呢吧啊呀着过们地得里中上下ーっッゃゅょャュョぁぃぅぇぉ々〜はがをにでともへのねよか"
    + _CLAUSE_MARKS
    + _SENTENCE_MARKS
    + CJK_CLOSERS
)
_AFTER_QUOTATION = "とっ"  # "..." と言う: the sentence goes on
_NO_END = frozenset(_CJK_OPENERS)

_LINE_START_NUMBER = re.compile(r"[\s#>*_]*\d+\.$")
_MARKUP = re.compile(r"`+|\*{1,3}|_{1,3}|\[|\]\([^\s)]*\)?|\]")
_ASCII_WORD = re.compile(r"\S*[A-Za-z0-9]\S*")
_WORDS_PER_CJK = 0.4
_LONGEST_MARKUP = 120  # characters; what stays open for longer was no markup


def is_cjk(character: str) -> bool:
    """Whether it is a letter of a script written without spaces: Han, hiragana, katakana."""
    return (
        "\u3040" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\uf900" <= character <= "\ufaff"
        or character == "々"
    )


def size(text: str) -> float:
    """How much there is to say, in words; a Chinese or Japanese character counts as 0.4 words."""
    if text.isascii():
        return len(_ASCII_WORD.findall(text))
    words = 0.0
    for token in text.split():
        cjk = sum(map(is_cjk, token))
        words += _WORDS_PER_CJK * cjk + any(character.isalnum() and not is_cjk(character) for character in token)
    return words


def strength(before: str, after: str) -> Strength:
    """What ends at the end of `before`, given the characters after it; `after` starts with a space, a line break or a
    CJK letter.

    A mark that needs a look past the space ("30, 2026", "No. 5", "approx. five") is no boundary until `after` shows a
    further character.
    """
    if "\n" in after:
        return Strength.SENTENCE
    bare = _without_closers(before)
    mark, following = bare[-1:], after.lstrip()[:1]
    if mark == ".":
        return _strength_of_period(bare, following)
    if mark and mark in _SENTENCE_MARKS:
        quoted = before != bare and after[0] in _AFTER_QUOTATION
        return Strength.NONE if quoted else Strength.SENTENCE
    if bare.endswith((" -", " –", "--")):
        said = bare.rstrip("-–").rpartition("\n")[2].rstrip()
        return Strength.CLAUSE if said and not said[-1].isdigit() else Strength.NONE
    if not mark or mark not in _CLAUSE_MARKS:
        return Strength.NONE
    if bare[-2:-1].isdigit() and (not following or following.isdigit()):
        return Strength.NONE
    return Strength.CLAUSE


def _strength_of_period(bare: str, following: str) -> Strength:
    if bare.endswith("..."):
        return Strength.CLAUSE
    word = re.split(r"[\s(\"'“‘*_]", bare[:-1])[-1].lower()
    if not following or following.islower() or word in _ABBREVIATIONS:
        return Strength.NONE
    if word not in _ENDING_INITIALS and all(len(letter) == 1 and letter.isalpha() for letter in word.split(".")):
        return Strength.NONE
    if (following.isdigit() and word in _BEFORE_NUMBERS) or _LINE_START_NUMBER.fullmatch(bare.rpartition("\n")[2]):
        return Strength.NONE
    return Strength.SENTENCE


def gap_quality(before: str, after: str) -> int:
    """How well the gap between two words, or two CJK letters, serves as a cut: 0 not at all, 1 acceptable, 2 good, 3 a
    clause ends there.

    `after` must reach to the end of the next word, so that numbers, units and names are seen whole.
    """
    if after[0].isspace():
        if strength(before, after):
            return 3
        last, following = before.split()[-1], after.split()[0]
        if last.lower() in _HANGING or last[-1].isdigit() or following[0].isdigit() or last[-1] == ".":
            return 0
        if following.lower() in _CLINGING or (last[:1].isupper() and following[:1].isupper()):
            return 0
        return 2 if following.lower() in _STARTERS else 1
    last, following = before[-1], after[0]
    if following in _NO_START or last in _NO_END or not (is_cjk(last) and is_cjk(following)):
        return 0
    return 2 if ("\u3040" <= last <= "\u309f" and not "\u3040" <= following <= "\u309f") or last in "的了" else 1


def inside_construct(text: str, ends_line: bool) -> bool:
    """Whether a cut at the end of `text` would part a code block or, within a line, a table row, a quotation in CJK
    quotes, bold text, a code span or a link."""
    fences = [line for line in text.split("\n") if line.lstrip().startswith(("```", "~~~"))]
    if len(fences) % 2 == 1 or ends_line:
        return len(fences) % 2 == 1
    line = text.rpartition("\n")[2]
    recent = line[-_LONGEST_MARKUP:]
    in_quotation = any(recent.count(opener) > recent.count(closer) for closer, opener in _CJK_PAIRS.items())
    return line.lstrip().startswith(("|", "```", "~~~")) or in_quotation or _in_markup(recent)


def _in_markup(line: str) -> bool:
    """CommonMark's flanking rule: a run opens when a word follows it and none precedes it, and closes when a word
    precedes it."""
    open_marks: list[str] = []
    for match in _MARKUP.finditer(line):
        mark, before, after = (
            match.group(),
            line[match.start() - 1 : match.start()],
            line[match.end() : match.end() + 1],
        )
        if mark.startswith("]"):
            _close(open_marks, "[", mark == "]" or mark.endswith(")"))
        elif mark in open_marks and (mark[0] == "`" or not before.isspace()):
            _close(open_marks, mark, True)
        elif mark == "[" or mark[0] == "`" or (not after.isspace() and not before.isalnum()):
            open_marks.append(mark)
    return bool(open_marks)


def _close(open_marks: list[str], mark: str, complete: bool) -> None:
    if complete and mark in open_marks:
        del open_marks[open_marks.index(mark) :]


def _without_closers(text: str) -> str:
    end = len(text)
    while end and (text[end - 1] in _CLOSERS or unicodedata.category(text[end - 1]) in ("So", "Sk", "Mn")):
        end -= 1
    return text[:end]
