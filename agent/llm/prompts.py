"""What the model is told: the system prompt, examples of spoken answers, and the file's own chat template."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from agent.errors import TurnscopeError
from agent.llm.echo import has_echo
from agent.llm.protocol import Message

SYSTEM_PROMPT = (
    "You are a friendly companion in a spoken conversation. Answer every time with one or two short, simple sentences."
)

# A model of 135 M parameters follows examples better than instructions: answers get half as long, and to the point.
EXAMPLES = (
    Message("user", "How are you?"),
    Message("assistant", "I am doing well, thank you. How can I help you?"),
    Message("user", "Turn left."),
    Message("assistant", "Okay, I am turning left."),
    Message("user", "What is three plus five?"),
    Message("assistant", "Three plus five is eight."),
    Message("user", "Why do cats purr?"),
    Message("assistant", "Cats purr when they feel happy and safe. It also helps them to calm down."),
)

# Stands for a message's content in a rendering; the characters are for private use and occur in no template.
_PLACEHOLDER = "\ue000{}\ue001"
_PLACEHOLDERS = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True)
class Piece:
    """A part of a prompt: the template's own text (`message` is None), or the content of a message."""

    text: str
    message: Message | None = None


_PROBE = (
    Message("system", "probe 1"),
    Message("user", "probe 2"),
    Message("assistant", "probe 3"),
    Message("user", "probe 4"),
)


class ChatTemplate:
    """A GGUF file's own Jinja template. Raises TurnscopeError when it is missing, cannot be rendered, or leaves out
    what is said.

    Where the template refuses or leaves out a system message, its text goes to the head of the first user message.
    """

    def __init__(self, template: str | None, *, bos: str, eos: str, name: str) -> None:
        self._name = name
        self._bos, self._eos = bos, eos
        if not template:
            raise TurnscopeError(f"{name} has no chat template: give the GGUF file of a model made for chat.")
        self._with_reply = self._compiled(template, reply=True)
        self._without_reply = self._compiled(template, reply=False)
        self._fold_system = False
        try:
            self._fold_system = bool(self._left_out())
        except TurnscopeError:
            self._fold_system = True
        left_out = self._left_out()
        if left_out:  # the system's text may be within the user's
            raise TurnscopeError(
                f"The chat template of {name} leaves out what the {left_out[-1].role} says: give a GGUF file with a "
                "template for conversations."
            )

    def _left_out(self) -> list[Message]:
        prompt = "".join(piece.text for piece in self.render(_PROBE, thinking=False)).casefold()
        return [message for message in _PROBE if message.content not in prompt]

    def _compiled(self, template: str, *, reply: bool) -> Jinja2ChatFormatter:
        try:
            return Jinja2ChatFormatter(template, self._eos, self._bos, add_generation_prompt=reply)
        except Exception as error:  # the file's text may fail in any way
            raise self._unusable(str(error)) from error

    def _unusable(self, reason: str) -> TurnscopeError:
        return TurnscopeError(
            f"The chat template of {self._name} cannot be rendered ({' '.join(reason.split())}): give a GGUF file "
            "with a working template."
        )

    def render(self, messages: Sequence[Message], *, thinking: bool) -> list[Piece]:
        """The prompt for a reply to these messages, in pieces that join to what the template makes of them. Templates
        look at the first message: without any, it is what a conversation starts with."""
        if not messages:
            return self.render_start([], thinking=thinking)
        return self._pieces(self._folded(messages), self._with_reply, thinking)

    def render_start(self, messages: Sequence[Message], *, thinking: bool) -> list[Piece]:
        """The part of `render` that stays the same when the conversation goes on: with what the user says next, or,
        after a user message, with more words of it. Empty where the template does not show where that is."""
        goes_on = bool(messages) and messages[-1].role == "user"
        folded = self._folded(messages if goes_on else [*messages, Message("user", "more")])
        pieces = self._pieces(folded, self._without_reply, thinking)
        cut = next((at for at in range(len(pieces) - 1, -1, -1) if pieces[at].message is folded[-1]), 0)
        return pieces[: cut + 1 if goes_on and cut else cut]

    def _folded(self, messages: Sequence[Message]) -> list[Message]:
        if not self._fold_system or not messages or messages[0].role != "system":
            return list(messages)
        system, *rest = messages
        for at, message in enumerate(rest):
            if message.role == "user":
                return [*rest[:at], Message("user", f"{system.content}\n\n{message.content}"), *rest[at + 1 :]]
        return [Message("user", system.content), *rest]

    def _pieces(self, messages: Sequence[Message], formatter: Jinja2ChatFormatter, thinking: bool) -> list[Piece]:
        """Render twice, with the contents and with placeholders for them; where the two differ, the prompt is one
        piece."""
        prompt = self._rendered(formatter, [message.content for message in messages], messages, thinking)
        skeleton = self._rendered(
            formatter, [_PLACEHOLDER.format(at) for at in range(len(messages))], messages, thinking
        )
        for contents in ([m.content for m in messages], [m.content.strip() for m in messages]):
            parts = _PLACEHOLDERS.split(skeleton)  # text, number, text, number, ..., text
            pieces = [
                Piece(contents[int(part)], messages[int(part)]) if at % 2 else Piece(part)
                for at, part in enumerate(parts)
                if part
            ]
            if "".join(piece.text for piece in pieces) == prompt:
                return pieces
        return [Piece(prompt)]

    def _rendered(
        self, formatter: Jinja2ChatFormatter, contents: Sequence[str], messages: Sequence[Message], thinking: bool
    ) -> str:
        rows: list[Any] = [{"role": m.role, "content": text} for m, text in zip(messages, contents, strict=True)]
        try:
            return formatter(messages=rows, enable_thinking=thinking).prompt
        except Exception as error:  # the template is a program from the file and may fail in any way
            quotes = has_echo(str(error), messages)
            raise self._unusable(type(error).__name__ if quotes else str(error)) from error
