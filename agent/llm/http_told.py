"""What a server tells of an error, in the forms of OpenAI, FastAPI, vLLM and llama-server."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent.llm.echo import has_echo, plain, without_echo
from agent.llm.http_address import one_line
from agent.llm.http_chunk import mapping
from agent.llm.protocol import Message

_READ_CHARACTERS = 4000
_INPUT = re.compile(r"[,{]?\s*['\"]input['\"]\s*:.*", re.DOTALL)  # what FastAPI did not accept, and all after it
_CONTEXT = re.compile(r"context[ _](length|size|window)|exceed_context", re.IGNORECASE)
_CONTEXT_LIMIT = re.compile(r"context (length|size|window)( \w+)* \(?\d+ tokens", re.IGNORECASE)
_NAMED = re.compile(r"[`'\"]([a-z_.]+)[`'\"]|\b([a-z]+(?:_[a-z]+)+)\b")


@dataclass(frozen=True)
class Told:
    """`quote` is the message on one line, shortened; it is empty where the server sends the conversation's own words
    or the API key back. `fields` are the names of the request's parameters that it speaks of, `overflow` says whether
    it is about the length of the context: for both, the words of the conversation do not count."""

    quote: str = ""
    fields: frozenset[str] = frozenset()
    overflow: bool = False

    @classmethod
    def of(
        cls, text: str, messages: Sequence[Message], key: str, *, codes: str = "", fields: Sequence[str] = ()
    ) -> "Told":
        """Read a message, the error's codes, and the parameters that it gives apart from the message."""
        is_secret = _has_key(text, key)
        text = _INPUT.sub("", text[:_READ_CHARACTERS])
        own = without_echo(text, messages)
        named = [name for quoted, bare in _NAMED.findall(own) for name in (quoted or bare).split(".")]
        overflow = _CONTEXT.search(f"{codes} {own}") or _CONTEXT_LIMIT.search(text)
        quote = one_line(text) if own == plain(text) and not is_secret else ""
        return cls(quote, frozenset([*named, *fields]), overflow is not None)

    @classmethod
    def of_body(cls, body: bytes, messages: Sequence[Message], key: str) -> "Told":
        """Read the body of an error's answer. A page of HTML and JSON of another form tell nothing."""
        text = body.decode("utf-8", errors="replace")
        try:
            return cls.of_json(json.loads(text), messages, key) or cls()
        except (ValueError, RecursionError):
            return cls() if text.lstrip().startswith("<") else cls.of(text, messages, key)

    @classmethod
    def of_json(cls, data: Any, messages: Sequence[Message], key: str) -> "Told | None":
        """Read OpenAI's {"error": {"message": ...}} or FastAPI's {"detail": ...}; None for what is no error."""
        codes: list[str] = []
        fields: list[str] = []
        while isinstance(data, dict):
            codes += [str(data.get(name)) for name in ("code", "type")]
            fields += _names(data.get("param"))
            inner = data.get("error") or data.get("detail") or data.get("message")
            if inner is None:
                return None
            if isinstance(inner, list):
                fields += [name for entry in inner for name in _location(entry)]
            if not isinstance(inner, dict):
                return cls.of(_text(inner), messages, key, codes=" ".join(codes), fields=fields)
            data = inner
        return None


def _has_key(text: str, key: str) -> bool:
    """Whether the text has the key in it, or a longer part of it."""
    return bool(key) and (plain(key) in plain(text) or has_echo(text, [Message("user", key)]))


def _text(inner: Any) -> str:
    """A message, or those of FastAPI's list, of which each entry may hold what it did not accept too."""
    return "; ".join(_messages(inner)) if isinstance(inner, list) else str(inner)


def _messages(entries: Sequence[Any]) -> Iterator[str]:
    for entry in entries:
        message = mapping(entry).get("msg", entry)
        if isinstance(message, str):
            yield ": ".join(part for part in (".".join(_location(entry)), message) if part)


def _location(entry: Any) -> list[str]:
    location = mapping(entry).get("loc")
    return [str(step) for step in location] if isinstance(location, list) else []


def _names(parameter: Any) -> list[str]:
    return parameter.split(".") if isinstance(parameter, str) else []
