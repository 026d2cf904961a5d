"""Spans sent to a collector: a real HTTP server on this machine, and the ways in which it can fail."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from profiling.trace.clock import Anchor
from profiling.trace.collector import WAITING_TURNS, Collector
from profiling.trace.spans import turn_spans
from tests.profiling.turns import answered


def spans() -> list[ReadableSpan]:
    return turn_spans(answered(), Anchor(0, 10**18), Resource({"service.name": "turnscope"}))


@contextmanager
def server(status: int = 200, release: threading.Event | None = None) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An HTTP server that answers `status`, once `release` is set; its address and what it got: (path, body)."""
    got: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if release:
                release.wait(20)
            got.append((self.path, body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            logging.getLogger(__name__).debug(format, *args)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", got
    finally:
        if release:
            release.set()
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_every_turn_arrives_as_protobuf() -> None:
    with server() as (url, got):
        collector = Collector(url)
        for _ in range(3):
            collector.send(spans())
        assert collector.close() is None
    assert [path for path, _ in got] == ["/v1/traces"] * 3
    request = ExportTraceServiceRequest.FromString(got[0][1])
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == [span.name for span in spans()]


def test_a_whole_endpoint_is_taken_as_it_is() -> None:
    with server() as (url, got):
        collector = Collector(f"{url}/otlp/traces")
        collector.send(spans())
        assert collector.close() is None
    assert got[0][0] == "/otlp/traces"


def test_nobody_there_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:password@127.0.0.1:{free.getsockname()[1]}"
    collector = Collector(url, timeout_s=0.2)
    collector.send(spans())
    sentence = collector.close()
    assert sentence is not None and "took the spans of 0 of 1 turns: no connection" in sentence
    assert "password" not in sentence
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("status", "words"), [(404, "404 Not Found"), (401, "401 Unauthorized"), (500, "500 Internal")]
)
def test_a_refusal_is_named(status: int, words: str) -> None:
    with server(status) as (url, _):
        collector = Collector(url)
        collector.send(spans())
        sentence = collector.close()
    assert sentence is not None and words in sentence and sentence.endswith(".")


def test_a_collector_that_does_not_answer_blocks_neither_the_conversation_nor_the_end() -> None:
    release = threading.Event()
    with server(release=release) as (url, got):
        collector = Collector(url, timeout_s=10)
        for _ in range(2 * WAITING_TURNS):
            collector.send(spans()[:1])
        started = time.monotonic()
        sentence = collector.close(timeout_s=0.2)
        assert time.monotonic() - started < 5
        assert not got
    assert sentence is not None and f"took the spans of 0 of {2 * WAITING_TURNS} turns" in sentence


@pytest.mark.parametrize(
    "url", ["localhost:4318", "", "ftp://host", "http://", "http://host:port", "http://[", "http://h:0"]
)
def test_what_is_no_address_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(ValueError, match=r"The collector's address .* is not a URL such as http://localhost:4318\."):
        Collector(url)
