"""An OpenAI-compatible server: what it serves, and its streamed chat completions."""

import json
import ssl
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any

from agent.errors import TurnscopeError
from agent.llm import http_errors
from agent.llm.http_address import KEY_SETTING, is_printed, split_address, without_secrets
from agent.llm.http_chunk import Chunk, Figures, mapping, token_count
from agent.llm.http_told import Told
from agent.llm.protocol import Message, ShouldStop
from agent.llm.sse import Connection, EventTooLong, events
from agent.llm.stopping import never
from profiling.trace.clock import Clock

_LAST_S = 2.0  # how long the figures that may follow the end of a reply are waited for
_MAX_BODY_BYTES = 1 << 20


@dataclass(frozen=True)
class ServedModel:
    """A model's name at the server, and its context where the server tells it."""

    name: str
    context_tokens: int | None


class Refused(TurnscopeError):
    """The server does not accept the request; `told` is what it tells of it."""

    def __init__(self, sentence: str, told: Told) -> None:
        super().__init__(sentence)
        self.told = told


class Server:
    """The server at `url` ("http://HOST:PORT/v1" or https). Each request has a connection of its own.

    Everything raises TurnscopeError: for an address that is none, a server that cannot be reached, that sends nothing
    for `timeout_s`, nothing of its reply for as long, or that refuses. No sentence shows the key.
    """

    def __init__(self, url: str, *, clock: Clock, timeout_s: float, api_key: str | None) -> None:
        parts = split_address(url)
        self.url = url.rstrip("/")
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._clock = clock
        self._timeout_s = timeout_s
        self._key = _checked_key(api_key)
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def model(self, wanted: str | None) -> ServedModel:
        """The model of this name or alias; without a name, the only one."""
        served = [entry for entry in self._models() if isinstance(entry.get("id"), str)]
        if not served:
            raise http_errors.no_model(self.url)
        found = [entry for entry in served if wanted is None or wanted == entry["id"] or wanted in _aliases(entry)]
        if not found or (wanted is None and len(found) > 1):
            raise http_errors.which_model(self.url, wanted, [entry["id"] for entry in served])
        return ServedModel(found[0]["id"], _context_tokens(found[0]) or self._context_of_llama_server())

    def chat(
        self, body: Mapping[str, Any], messages: Sequence[Message], should_stop: ShouldStop
    ) -> Generator[Chunk, None, None]:
        """The events of a completion as they arrive; the request goes out with the first `next`. Closing the iterator
        closes the connection, which stops the server. Raises Stopped when `should_stop` turned true. Errors do not
        quote the words of `messages`, those of the request."""
        with self._connection(should_stop) as connection:
            response = self._send(connection, "POST", f"{self._path}/chat/completions", body)
            self._require_stream(response, messages)
            begun = finished = False
            counted, waits = 0, connection.waits
            try:
                for event in events(response):
                    if event == "[DONE]":
                        if not finished:
                            yield Chunk("", "", "stop", Figures())
                        return
                    chunk = self._chunk(event, messages, waited=connection.waits > waits)
                    begun, waits = True, connection.waits
                    yield chunk
                    if finished:
                        continue
                    if chunk.finish_reason is not None:
                        finished = True
                        connection.expect_more(min(_LAST_S, self._timeout_s))
                    elif chunk.goes_beyond(counted):
                        connection.expect_more(self._timeout_s)
                    counted = max(counted, chunk.figures.output_tokens or 0)
            except EventTooLong:
                if not finished:
                    raise http_errors.foreign(self.url, "an event without end") from None
            except (OSError, HTTPException) as error:
                if not finished and isinstance(error, TimeoutError):
                    raise http_errors.wordless_for(self.url, self._timeout_s) from None
        if not begun:
            raise self._reason_for_no_reply(body, messages, should_stop)
        if not finished:
            raise http_errors.ended_early(self.url, begun=True)

    def _reason_for_no_reply(
        self, body: Mapping[str, Any], messages: Sequence[Message], should_stop: ShouldStop
    ) -> TurnscopeError:
        """Ask for one token without a stream: llama_cpp.server then says what it keeps to its log otherwise."""
        plain = {field: value for field, value in body.items() if field != "stream_options"}
        with self._connection(should_stop) as connection:
            path = f"{self._path}/chat/completions"
            response = self._send(connection, "POST", path, plain | {"stream": False, "max_tokens": 1})
            content = self._body(response)
        if response.status != 200:
            return self._refusal(f"{self.url}/chat/completions", response, content, messages)
        return http_errors.ended_early(self.url, begun=False)

    def _models(self) -> list[Mapping[str, Any]]:
        url = f"{self.url}/models"
        with self._connection(never) as connection:
            response = self._send(connection, "GET", f"{self._path}/models")
            content = self._body(response)
            if response.status != 200:
                raise self._refusal(url, response, content, [])
        entries = mapping(_json(content)).get("data")
        if not isinstance(entries, list):
            raise http_errors.foreign(url, self._shown(response.getheader("Content-Type")) or "no list of models")
        return [mapping(entry) for entry in entries]

    def _context_of_llama_server(self) -> int | None:
        """From its /props, beside /v1, for versions whose list of models does not tell it. None where there is no such
        page."""
        with self._connection(never) as connection:
            response = self._send(connection, "GET", f"{self._path.removesuffix('/v1')}/props")
            content = self._body(response)
        settings = mapping(mapping(_json(content)).get("default_generation_settings"))
        return _positive(settings.get("n_ctx")) if response.status == 200 else None

    def _connection(self, should_stop: ShouldStop) -> Connection:
        try:
            return Connection(
                self.host,
                self.port,
                self._tls,
                clock=self._clock,
                timeout_s=self._timeout_s,
                should_stop=should_stop,
            )
        except OSError as error:
            raise http_errors.broken(self.url, error, self._timeout_s) from error

    def _send(
        self, connection: Connection, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({"Content-Type": "application/json"} if content else {})
        try:
            return connection.request(method, path, content, headers)
        except (OSError, HTTPException) as error:
            raise http_errors.broken(self.url, error, self._timeout_s) from error

    def _body(self, response: HTTPResponse) -> bytes:
        try:
            return response.read(_MAX_BODY_BYTES)
        except (OSError, HTTPException) as error:
            raise http_errors.broken(self.url, error, self._timeout_s) from error

    def _require_stream(self, response: HTTPResponse, messages: Sequence[Message]) -> None:
        if response.status != 200:
            raise self._refusal(f"{self.url}/chat/completions", response, self._body(response), messages)
        kind = (response.getheader("Content-Type") or "no content type").partition(";")[0]
        if kind != "text/event-stream":
            if told := Told.of_json(_json(self._body(response)), messages, self._key):
                raise http_errors.failed(self.url, told)
            raise http_errors.foreign(self.url, f"{self._shown(kind) or 'another type'} in place of an event stream")

    def _refusal(self, url: str, response: HTTPResponse, content: bytes, messages: Sequence[Message]) -> TurnscopeError:
        told = Told.of_body(content, messages, self._key)
        location = self._shown(without_secrets(response.getheader("Location") or ""))
        sentence = http_errors.refused(url, response.status, told, location=location, has_key=bool(self._key))
        if response.status in (400, 422) and not isinstance(sentence, http_errors.ContextOverflow):
            return Refused(str(sentence), told)
        return sentence

    def _shown(self, header: str | None) -> str:
        """What an answer's header says, as far as it may be shown."""
        return Told.of(header or "", [], self._key).quote

    def _chunk(self, event: str, messages: Sequence[Message], *, waited: bool) -> Chunk:
        data = _json(event)
        if not isinstance(data, dict):
            raise http_errors.foreign(self.url, "an event that is no JSON object")
        if told := Told.of_json(data, messages, self._key):
            raise http_errors.failed(self.url, told)
        return Chunk.of(data, waited=waited)


def _checked_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not is_printed(key):
        raise TurnscopeError(f"The server's API key has characters that no key has: set {KEY_SETTING} anew.")
    return key


def _aliases(entry: Mapping[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return aliases if isinstance(aliases, list) else []


def _context_tokens(entry: Mapping[str, Any]) -> int | None:
    """As vLLM and as llama-server tell it in the list of models."""
    return _positive(entry.get("max_model_len")) or _positive(mapping(entry.get("meta")).get("n_ctx"))


def _positive(value: Any) -> int | None:
    return token_count(value) or None


def _json(content: bytes | str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
