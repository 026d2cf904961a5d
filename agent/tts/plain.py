"""From a fragment of markdown to plain sentences. Phrases are cut from a reply while it grows, so marks may be
unbalanced."""

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

CODE_WORDS = {"en": "code example", "zh": "代码示例", "ja": "コード例", "ko": "코드 예시"}

_MAY_BE_MARKDOWN = re.compile(r"[*_`#\[\]<>~|\\&\n]|^\s?(?:[-+•]|\d+[.)])\s", re.MULTILINE)
_PRODUCT = re.compile(r"(?<=\d)(\s*)\*(\s*)(?=\d)")
_TABLE_ROW = re.compile(r"^[ \t]*\|(.*?)\|?[ \t]*$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[\s|:-]+$")
_BULLET = re.compile(r"^([ \t]*)•[ \t]*", re.MULTILINE)
_MID_LINE = "\u2060"  # a word joiner before text that continues a line keeps "- 5" or "1. x" from being read as a list
_SENTENCE_ENDS = ".!?:;,。！？：；，、…"


def plain(text: str, language: str = "en") -> str:
    """The words of `text` without markdown. Headings, list items and table rows become sentences; a code block becomes
    two words.

    A fragment that starts with a space continues a line. Marks that have no partner in the fragment are left in place.
    """
    if not _MAY_BE_MARKDOWN.search(text):
        return text
    text = _PRODUCT.sub(r"\1×\2", text)
    text = _TABLE_ROW.sub(_row, _BULLET.sub(r"\1- ", text))
    guard = _MID_LINE if text.startswith(" ") else ""
    return _join(_blocks(_parser().parse(guard + text.lstrip(" ")), CODE_WORDS.get(language, CODE_WORDS["en"])))


@cache
def _parser() -> MarkdownIt:
    """HTML tags are dropped and their text kept; indentation makes no code block, since fragments lose theirs."""
    return MarkdownIt("commonmark", {"html": True}).enable("strikethrough").disable(["code", "html_block"])


def _row(match: re.Match[str]) -> str:
    if _TABLE_RULE.match(match[1]):
        return ""
    return ", ".join(cell.strip() for cell in match[1].split("|") if cell.strip()) + "\n"


def _blocks(tokens: Sequence[Token], code_words: str) -> list[str]:
    blocks: list[str] = []
    number = ""
    for token in tokens:
        if token.type == "list_item_open":
            number = f"{token.info}, " if token.info else ""
        elif token.type == "inline":
            blocks.append(number + _inline(token.children or []))
            number = ""
        elif token.type == "fence":
            blocks.append(code_words)
    return [block.replace(_MID_LINE, "").strip() for block in blocks]


def _inline(tokens: Sequence[Token]) -> str:
    words: list[str] = []
    for token in tokens:
        if token.type in ("text", "code_inline", "image"):
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append("\n")
    return "".join(words)


def _join(blocks: list[str]) -> str:
    """One text, with a full stop wherever a block or a line ends without a mark, the last one excepted: it may go
    on."""
    lines = [line.strip() for block in blocks for line in block.split("\n") if line.strip()]
    ended = [
        line if line[-1] in _SENTENCE_ENDS else line + ("。" if line[-1] >= "\u3000" else ".") for line in lines[:-1]
    ]
    return " ".join([*ended, *lines[-1:]])
