"""What went wrong at a language model's server, each as one sentence that says what to do."""

import ssl
from collections.abc import Sequence
from http.client import HTTPException, IncompleteRead, RemoteDisconnected

from agent.errors import TurnscopeError
from agent.llm.http_address import KEY_SETTING, MODEL_SETTING, one_line
from agent.llm.http_told import Told
from agent.llm.sse import NoConnection, NoTls


class ContextOverflow(TurnscopeError):
    """The conversation is longer than the server's context."""


def broken(url: str, error: Exception, timeout_s: float) -> TurnscopeError:
    """The connection failed before the answer began."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TurnscopeError(
            f"The certificate of {url} is not valid here ({error.verify_message}): correct the address, or name the "
            "file of its authority in SSL_CERT_FILE."
        )
    if isinstance(error, NoTls | ssl.SSLError):
        return TurnscopeError(f"{url} does not speak TLS ({one_line(str(error))}): try http:// instead of https://.")
    if isinstance(error, NoConnection):
        return TurnscopeError(f"No connection to {url} ({error}): start the server, or correct the address.")
    if isinstance(error, TimeoutError):
        return silent(url, timeout_s)
    if isinstance(error, HTTPException) and not isinstance(error, RemoteDisconnected | IncompleteRead):
        return foreign(url, "not HTTP")
    return TurnscopeError(f"{url} closed the connection before its answer was complete: look at the server's log.")


def silent(url: str, timeout_s: float) -> TurnscopeError:
    return TurnscopeError(
        f"{url} sent nothing for {timeout_s:g} s: it is overloaded, still loading its model, or stuck; look at its log."
    )


def wordless_for(url: str, timeout_s: float) -> TurnscopeError:
    return TurnscopeError(
        f"{url} sent nothing of its reply for {timeout_s:g} s: it is overloaded, or stuck; look at its log."
    )


def ended_early(url: str, *, begun: bool) -> TurnscopeError:
    """The stream ended without a reason."""
    when = "in the middle of a reply" if begun else "before its reply began"
    return TurnscopeError(f"{url} ended the connection {when}: look at the server's log.")


def foreign(url: str, sent: str) -> TurnscopeError:
    return TurnscopeError(
        f"{url} does not answer like an OpenAI-compatible server ({sent}): correct the address, which ends in /v1 as a "
        "rule."
    )


def refused(url: str, status: int, told: Told, *, location: str, has_key: bool) -> TurnscopeError:
    """An answer with another status than 200."""
    said = _quoted(told)
    if status in (401, 403):
        what = "does not accept the API key" if has_key else "wants an API key"
        return TurnscopeError(f"{url} {what}{said}: set {KEY_SETTING} to a valid one.")
    if 300 <= status < 400:
        return TurnscopeError(
            f"{url} answers from another address: give that one ({location or 'it does not say it'})."
        )
    if told.overflow:
        return overflow(url.removesuffix("/chat/completions"), told)
    if status in (404, 405):
        return TurnscopeError(
            f"{url} is not there, says the server ({status}{said}): correct the address, which ends in /v1 as a rule."
        )
    if status == 503:
        return TurnscopeError(f"{url} is not ready{said}: try again once it has loaded its model.")
    return TurnscopeError(f"{url} refuses the request ({status}{said}): look at the server's log.")


def failed(url: str, told: Told) -> TurnscopeError:
    """An error that came within the stream."""
    if told.overflow:
        return overflow(url, told)
    return TurnscopeError(f"{url} failed while it wrote its reply{_quoted(told)}: look at the server's log.")


def overflow(url: str, told: Told) -> ContextOverflow:
    return ContextOverflow(
        f"The conversation does not fit into the context of the model at {url}{_quoted(told)}: shorten the system "
        "prompt, lower llm.max_tokens, or start the server with a larger context."
    )


def only_thought(url: str, tokens: int) -> TurnscopeError:
    return TurnscopeError(
        f"The model of {url} thought for {tokens} tokens and said nothing: switch its thinking off where the server is "
        "started, or give it more room with llm.thinking_tokens and llm.max_tokens."
    )


def said_nothing(url: str, finish_reason: str | None) -> TurnscopeError:
    """The reply is over, and there was no word in it."""
    if finish_reason == "content_filter":
        return TurnscopeError(
            f"The content filter of {url} withheld the reply: say it otherwise, or switch it off there."
        )
    why = "it was cut off" if finish_reason is None else f"finish_reason {one_line(finish_reason)!r}"
    return TurnscopeError(f"The reply of {url} has no word in it ({why}): look at the server's log, or ask otherwise.")


def no_model(url: str) -> TurnscopeError:
    return TurnscopeError(f"{url} serves no model: load one into the server.")


def which_model(url: str, wanted: str | None, served: Sequence[str]) -> TurnscopeError:
    names = ", ".join(map(one_line, served[:12])) + (", ..." if len(served) > 12 else "")
    if wanted is None:
        return TurnscopeError(f"{url} serves several models ({names}): choose one with {MODEL_SETTING}.")
    return TurnscopeError(f"{url} does not serve the model {wanted!r}: set {MODEL_SETTING} to one of {names}.")


def _quoted(told: Told) -> str:
    return f" ({told.quote})" if told.quote else ""
