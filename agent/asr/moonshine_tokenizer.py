"""Moonshine's tokenizer: token ids to text and words."""

from collections.abc import Sequence
from pathlib import Path

from agent.errors import TurnscopeError

_SPACE = "\u2581".encode()
_SPECIAL = 3  # unknown, start, end


class Tokenizer:
    """The table of pieces in tokenizer.bin. One that starts with U+2581 starts a word; the 256 bytes are pieces too."""

    def __init__(self, path: Path) -> None:
        """Raises TurnscopeError when the file is missing or is no such table."""
        try:
            self._pieces = _read_pieces(path.read_bytes())
        except OSError as error:
            raise TurnscopeError(
                f"The model file {path} cannot be read ({error.strerror}); `turnscope models` shows how to fetch it."
            ) from error
        except IndexError:
            self._pieces = []
        if _SPACE not in self._pieces:
            raise TurnscopeError(f"The file {path} is no Moonshine tokenizer; delete it and fetch the model again.")

    def text(self, tokens: Sequence[int]) -> str:
        """The text of `tokens` as the model gives it; a character of which only some bytes are there is left out."""
        pieces = (self._pieces[token] for token in tokens if _SPECIAL <= token < len(self._pieces))
        return b"".join(pieces).replace(_SPACE, b" ").decode(errors="ignore")

    def words(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """`tokens` cut into words, each with the punctuation that follows it."""
        words: list[tuple[int, ...]] = []
        for token in tokens:
            if words and not (token < len(self._pieces) and self._pieces[token].startswith(_SPACE)):
                words[-1] += (token,)
            else:
                words.append((token,))
        return words


def _read_pieces(data: bytes) -> list[bytes]:
    """Each piece follows its length: one byte, or two from 128 on (seven low bits, then the high ones)."""
    pieces: list[bytes] = []
    position = 0
    while position < len(data):
        length, position = data[position], position + 1
        if length >= 128:
            length, position = data[position] * 128 + length - 128, position + 1
        if position + length > len(data):
            raise IndexError("a piece is longer than the file")
        pieces.append(data[position : position + length])
        position += length
    return pieces
