"""Sending spans to an OpenTelemetry collector over OTLP/HTTP, beside the conversation."""

import logging
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

WAITING_TURNS = 64  # turns kept for a collector that is slow; later ones are lost to it and counted


class Collector:
    """Takes the spans of turns at once and sends them from a thread of its own. The usual OTEL_EXPORTER_OTLP_*
    variables for headers, certificates and compression hold."""

    def __init__(self, url: str, timeout_s: float = 5.0):
        """`url` is the collector's address (`http://host:4318`) or its whole trace endpoint; one turn is sent or given
        up within about `timeout_s`. Raises ValueError, with a sentence, when `url` is no such address."""
        self._endpoint = _endpoint(url)
        self._session = _Session(timeout_s)
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(lambda _: False)  # what went wrong is said by close()
        self._exporter = OTLPSpanExporter(
            self._endpoint, timeout=timeout_s, session=self._session, meter_provider=NoOpMeterProvider()
        )
        self._waiting: queue.Queue[Sequence[ReadableSpan] | None] = queue.Queue(WAITING_TURNS)
        self._given = 0
        self._sent = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Hand over the spans of one turn. Never waits."""
        self._given += 1
        try:
            self._waiting.put_nowait(spans)
        except queue.Full:
            self._session.outcome = "it was too slow"

    def close(self, timeout_s: float = 5.0) -> str | None:
        """Wait at most `timeout_s` for what is still to be sent. A sentence about what did not get there, if any."""
        self._closing.set()
        with suppress(queue.Full):  # then the thread sees `_closing` after the turns that wait
            self._waiting.put_nowait(None)
        self._thread.join(timeout_s)
        sent, reason = self._sent, self._session.outcome or f"it did not take them within {timeout_s:g} s"
        self._exporter.shutdown()
        if sent == self._given:
            return None
        return f"The collector at {_shown(self._endpoint)} took the spans of {sent} of {self._given} turns: {reason}."

    def _work(self) -> None:
        while not (self._closing.is_set() and self._waiting.empty()):
            spans = self._waiting.get()
            if spans is not None and self._exporter.export(spans) is SpanExportResult.SUCCESS:
                self._sent += 1


class _Session(requests.Session):
    """Remembers, in words, why the last request failed."""

    def __init__(self, timeout_s: float):
        super().__init__()
        self._timeout_s = timeout_s
        self.outcome = ""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        try:
            response = super().send(request, **kwargs)
        except requests.Timeout:
            self.outcome = f"it did not answer within {self._timeout_s:g} s"
            raise
        except requests.exceptions.SSLError:
            self.outcome = "its certificate was not accepted"
            raise
        except requests.RequestException:
            self.outcome = "no connection could be made, so see whether it is running there"
            raise
        if not response.ok:
            self.outcome = f"it answered {response.status_code} {response.reason}"
        return response


def _endpoint(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("not an address")
    except ValueError:
        raise ValueError(f"The collector's address {url!r} is not a URL such as http://localhost:4318.") from None
    return url if parts.path.strip("/") else urlunsplit(parts._replace(path="/v1/traces"))


def _shown(endpoint: str) -> str:
    """The endpoint without a user name, a password or a query that may hold a key."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
