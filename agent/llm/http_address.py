"""Addresses of servers, and what of a text may be shown: an address may hold a password, and a server may send
anything."""

import re
from urllib.parse import SplitResult, urlsplit

from agent.errors import TurnscopeError

MODEL_SETTING, KEY_SETTING = "TURNSCOPE_LLM__SERVER_MODEL", "TURNSCOPE_LLM__API_KEY"

_SHOWN_CHARACTERS = 200
_PRINTED = re.compile("[!-~]*")
_USER = re.compile(r"^([a-z]+://)?.*@", re.IGNORECASE | re.DOTALL)
_LIKE_AN_ADDRESS = re.compile(r"[a-z+]*://|[^/]*@|(?:[\w.-]+|\[[\da-f:]+\]):\d+(?:/|$)", re.IGNORECASE)


def looks_like_address(text: str) -> bool:
    """Whether a text has a scheme, a user or a port: "http://host/v1", "user@host", "localhost:8000/v1"."""
    return _LIKE_AN_ADDRESS.match(text) is not None


def split_address(url: str) -> SplitResult:
    """The parts of "http://HOST:PORT/v1" or "https://HOST/v1". Raises TurnscopeError for what is no such address, or
    holds more; the sentence shows nothing of it that may be secret."""
    shown = without_secrets(url)
    if "@" in re.split("[/?#]", url.partition("//")[2])[0]:
        raise TurnscopeError(
            f"The address of a server holds no name and password: give {shown}, and the key in {KEY_SETTING}."
        )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        usable = False
        parts = SplitResult("", "", "", "", "")
    if not usable or not is_printed(url) or parts.query or parts.fragment:
        raise TurnscopeError(f"{shown!r} is not the address of a server: give http://HOST:PORT/v1, or https://HOST/v1.")
    return parts


def without_secrets(url: str) -> str:
    """An address without its user, query and fragment."""
    return re.sub("[?#].*", "", _USER.sub(r"\1", url), flags=re.DOTALL)


def is_printed(text: str) -> bool:
    """Whether a text consists of ASCII's printed characters, without blanks."""
    return _PRINTED.fullmatch(text) is not None


def one_line(text: str) -> str:
    """A server's text as it may be shown: on one line, shortened, without what a terminal would obey or no encoding
    has."""
    shown = " ".join("".join(character if character.isprintable() else " " for character in text).split()).rstrip(".")
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[: _SHOWN_CHARACTERS - 3]}..."
