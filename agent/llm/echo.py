"""The conversation's own words in what a program says of its error. An error's sentence is printed and traced, so that
it must not quote them."""

import html
import re
from collections.abc import Sequence

from agent.llm.protocol import Message

_RUN_CHARACTERS = 12  # that a text and what was said must share
_RUN_OF_PROMPT = 24  # the system's prose shares a long word with an error's more easily
_ESCAPED_CHARACTER = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")


def plain(text: str) -> str:
    """Text in small letters on one line, without the marks by which JSON, Python or HTML write a text in another."""
    text = _ESCAPED_CHARACTER.sub(lambda found: chr(int(found[1] or found[2], 16)), html.unescape(text))
    text = re.sub(r"\\[nrt]", " ", text).replace("\\", "")
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(text.split()).casefold()


def without_echo(text: str, messages: Sequence[Message]) -> str:
    """The plain text without each run of at least 12 characters that stands in a message too (24 in one of the
    system's), and without whole messages that are shorter."""
    text = plain(text)
    echoed = bytearray(len(text))
    for message in messages:
        content = plain(message.content)
        size = _RUN_OF_PROMPT if message.role == "system" else _RUN_CHARACTERS
        for start, end in _runs(text, content, size):
            echoed[start:end] = b"\1" * (end - start)
    kept = (" " if is_echo else character for character, is_echo in zip(text, echoed, strict=True))
    return " ".join("".join(kept).split())


def has_echo(text: str, messages: Sequence[Message]) -> bool:
    return without_echo(text, messages) != plain(text)


def _runs(text: str, content: str, size: int) -> list[tuple[int, int]]:
    """Where the text has `size` characters of the content, or all of a shorter one as words of their own."""
    if len(content) < size:
        whole = re.compile(rf"(?<!\w){re.escape(content)}(?!\w)") if content else None
        return [found.span() for found in whole.finditer(text)] if whole else []
    runs = {content[at : at + size] for at in range(len(content) - size + 1)}
    return [(at, at + size) for at in range(len(text) - size + 1) if text[at : at + size] in runs]
