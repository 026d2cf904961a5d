"""Text of tokens that keep coming: each is looked up once."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from agent.asr.nemo_library import RNNTBPEDecoding

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_UNKNOWN = "<unk>"


class GrowingText:
    """What the library's own detokeniser makes of all tokens at once: pieces joined, language tags (`<en-US>`) and the
    space before a punctuation mark taken out. Only a piece for the unknown, which it would show, is left out."""

    def __init__(self, decoding: RNNTBPEDecoding) -> None:
        """`decoding` knows the tokenizer, the tags (`set_strip_lang_tags`) and the punctuation marks."""
        tokenizer: Any = decoding.tokenizer
        self._pieces: Callable[[list[int]], list[str]] = tokenizer.ids_to_tokens
        self._tag: re.Pattern[str] = decoding.lang_tag_pattern
        self._spaced_mark: re.Pattern[str] | None = (
            decoding.space_before_punct_pattern if decoding.supported_punctuation else None
        )
        self._raw = ""
        self._bytes = b""  # of a character that is spelt in bytes and not complete

    def add(self, tokens: Iterable[int]) -> None:
        for piece in self._pieces(list(tokens)):
            if byte := _BYTE.fullmatch(piece):
                self._bytes += bytes.fromhex(byte[1])
            else:
                self._raw += self._spelt() + ("" if piece == _UNKNOWN else piece.replace("▁", " "))
                self._bytes = b""

    def __str__(self) -> str:
        text = self._raw + self._spelt()
        if self._spaced_mark:
            text = self._spaced_mark.sub(r"\2", text)
        return self._tag.sub("", text).strip()

    def _spelt(self) -> str:
        return self._bytes.decode("utf-8", "ignore")
