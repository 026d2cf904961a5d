"""A server on loopback that answers as it is told: what vLLM and llama-server send, and what a broken one does."""

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent.llm.http import HttpLlmEngine
from agent.llm.protocol import Message
from profiling.trace.clock import NS_PER_S
from tests.fakes.ticking import TickingClock, never
from tests.llm.reading import Read, read

CERTIFICATE = Path(__file__).with_name("localhost.pem")
ASK = [Message("system", "Be brief."), Message("user", "Well?")]
HANG = object()  # in an answer: send nothing more until the client is gone
CUT = object()  # in an answer: close the connection
AWAITED = object()  # in an answer: go on once the client waits for it (its should_stop is `polled`)
POLLS = 5  # as many go by before a client that has an event waits for the next one

Event = dict[str, Any]


@dataclass
class Answer:
    """One answer to one request. `parts` are sent one by one: events, or raw bytes, or AWAITED or HANG or CUT."""

    parts: Iterable[Any] = ()
    status: int = 200
    kind: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    before_head: bool = False  # the parts take the place of the head too


def page(content: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Answer:
    data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    return Answer([data], status, kind, headers)


def stream(*parts: Any) -> Answer:
    return Answer([*parts, b"data: [DONE]\n\n"])


@dataclass
class FakeServer:
    """`answers` are given to the chat requests in turn, the last one from then on; `asked` are their bodies."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    models: Answer = field(default_factory=lambda: page({"data": [{"id": "m"}]}))
    props: Answer = field(default_factory=lambda: page("", 404))
    asked: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)  # an answer has come to its HANG
    polls: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    gone: threading.Event = field(default_factory=threading.Event)  # the client closed a connection in a HANG

    def polled(self) -> bool:
        """For `should_stop`: never stops, and tells the server that the client waits."""
        self.polls.release()
        return False

    def await_client(self) -> None:
        while self.polls.acquire(blocking=False):
            continue
        for _ in range(POLLS):
            self.polls.acquire(timeout=30)

    def answer(self, path: str) -> Answer:
        if path.endswith("/models"):
            return self.models
        if path.endswith("/props"):
            return self.props
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(*answers: Answer, tls: bool = False) -> Iterator[FakeServer]:
    fake = FakeServer(answers=list(answers))
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    http.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        http.socket = context.wrap_socket(http.socket, server_side=True)
    fake.url = f"{'https' if tls else 'http'}://localhost:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._give(fake.answer(self.path))

        def do_POST(self) -> None:
            fake.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            fake.headers.append(dict(self.headers))
            self._give(fake.answer(self.path))

        def _give(self, answer: Answer) -> None:
            self.close_connection = True
            try:
                if not answer.before_head:
                    self._head(answer)
                for part in answer.parts:
                    if part is CUT:
                        return
                    if part is AWAITED:
                        fake.await_client()
                        continue
                    if part is HANG:
                        fake.hanging.set()
                        self.connection.recv(1)
                        fake.gone.set()
                        return
                    self._send(_encoded(part), raw=answer.before_head)
                if not answer.before_head:
                    self._send(b"", raw=False)
            except ConnectionError:
                fake.gone.set()

        def _head(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Transfer-Encoding", "chunked")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def _send(self, data: bytes, *, raw: bool) -> None:
            self.wfile.write(data if raw else b"%x\r\n%s\r\n" % (len(data), data))

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler


def _encoded(part: Any) -> bytes:
    return part if isinstance(part, bytes) else b"data: " + json.dumps(part).encode() + b"\n\n"


def event(content: str | None = None, *, thought: str | None = None, finish: str | None = None, **more: Any) -> Event:
    delta = {name: text for name, text in (("content", content), ("reasoning_content", thought)) if text is not None}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


class FastClock(TickingClock):
    """Moves on by half a second whenever it is read."""

    def now_ns(self) -> int:
        self.ns += NS_PER_S // 2
        return self.ns


class PassingClock(TickingClock):
    """Moves on by seconds whenever it is read while the server hangs."""

    def __init__(self, server: FakeServer) -> None:
        super().__init__()
        self._server = server

    def now_ns(self) -> int:
        if self._server.hanging.is_set():
            self.ns += 5 * NS_PER_S
        return super().now_ns()


def engine(server: FakeServer, **settings: Any) -> HttpLlmEngine:
    return HttpLlmEngine(server.url, **{"clock": TickingClock(), **settings})


def say(
    asked: HttpLlmEngine,
    messages: Sequence[Message] = ASK,
    *,
    thinking_tokens: int = 0,
    max_tokens: int = 30,
    should_stop: Callable[[], bool] = never,
) -> Read:
    return read(
        asked.generate(messages, thinking_tokens=thinking_tokens, max_tokens=max_tokens, should_stop=should_stop)
    )
