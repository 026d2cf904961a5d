"""What of the generated text is thought and what is said."""

import codecs
from dataclasses import dataclass


@dataclass(frozen=True)
class ThoughtTags:
    """The texts between which a model thinks. `native` says that it opens a thought by itself when its prompt asks for
    one; other models think because the opening tag is put into their mouth."""

    opening: str
    closing: str
    native: bool = False


THINK = ThoughtTags("<think>", "</think>")
CHANNEL = ThoughtTags("<|channel>", "<channel|>", native=True)  # Gemma 4: <|channel>thought ... <channel|>answer


class Speech:
    """Splits a stream of token bytes into visible text and thought.

    A character whose bytes are spread over tokens comes out whole with the last of them; bytes that make no character
    are dropped. Text that may be the beginning of a tag waits until it is one or not. `thinking` is true between the
    tags.
    """

    def __init__(self, tags: ThoughtTags) -> None:
        self._tags = tags
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self._held = ""  # may be the beginning of a tag
        self._unsent = ""  # visible, but came in a token that is unspoken
        self._after_tag = False  # white space between a tag and the text is no part of the text
        self.thinking = False

    def open_thought(self) -> None:
        self.thinking = True
        self._held = ""

    def close_thought(self) -> None:
        self.thinking = False
        self._held = ""
        self._after_tag = True
        self._decoder.reset()

    def feed(self, piece: bytes) -> tuple[str, bool]:
        """Take a token's bytes; return the text that became visible and whether the token is unspoken."""
        was_thinking = self.thinking
        text = self._held + self._decoder.decode(piece)
        self._held = ""
        visible = ""
        while text:
            said, text = self._split_at_tag(text)
            visible += said
        visible = self._unsent + visible
        unspoken = was_thinking or self.thinking
        self._unsent = visible if unspoken else ""
        return ("", True) if unspoken else (visible, False)

    def _split_at_tag(self, text: str) -> tuple[str, str]:
        """Consume text up to the next tag and switch at it; return what of it is visible, and the rest."""
        tags = (self._tags.closing,) if self.thinking else (self._tags.opening, self._tags.closing)
        found = [(at, tag) for tag in tags if (at := text.find(tag)) >= 0]
        if not found:
            kept = len(text) - _beginning_of_tag(text, tags)
            self._held = text[kept:]
            return self._said(text[:kept]), ""
        at, tag = min(found)
        said = self._said(text[:at])
        self.thinking = tag == self._tags.opening
        self._after_tag = True
        return said, text[at + len(tag) :]

    def _said(self, text: str) -> str:
        if self.thinking:
            return ""
        if self._after_tag:
            text = text.lstrip()
            self._after_tag = not text
        return text

    def finish(self) -> str:
        """The visible text that was still waiting when generation ended."""
        rest = self._unsent + ("" if self.thinking else self._held)
        self._unsent = self._held = ""
        return rest


def _beginning_of_tag(text: str, tags: tuple[str, ...]) -> int:
    """Length of the longest end of `text` with which a tag begins."""
    longest = max(map(len, tags)) - 1
    return next(
        (size for size in range(min(longest, len(text)), 0, -1) if any(tag.startswith(text[-size:]) for tag in tags)), 0
    )
