"""One HTTP request that can be given up at any moment: every wait for the server looks at `should_stop` and at a
deadline, and a streamed answer comes event by event."""

import errno
import io
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import TypeVar

from agent.llm.protocol import ShouldStop
from profiling.trace.clock import NS_PER_S, Clock

T = TypeVar("T")
POLL_S = 0.02
CONNECT_S = 5.0
MAX_EVENT_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Stopped(Exception):
    """`should_stop` turned true while the server was waited for."""


class NoConnection(OSError):
    """The server cannot be reached."""


class NoTls(OSError):
    """What answers does not speak TLS."""


class EventTooLong(Exception):
    """An event of more than MAX_EVENT_BYTES."""


class Connection:
    """A connection to `host`, over TLS when a context for it is given, for one request and its answer.

    Leaving the `with` block closes it, by which the server learns that the answer is not wanted any more. Whatever
    waits for the network raises Stopped within POLL_S of `should_stop` turning true (looking up the host's name does
    not), and TimeoutError once the clock has passed the deadline, whatever arrives: CONNECT_S for the connection, then
    `timeout_s` from the request on, and from each call of `expect_more` on.

    `waits` counts how often bytes were waited for: what is read while it stays the same was there already, so that the
    time of its arrival is not known.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        clock: Clock,
        timeout_s: float,
        should_stop: ShouldStop,
    ) -> None:
        self._clock = clock
        self._should_stop = should_stop
        self._host, self._port = host, port
        self.waits = 0
        self.expect_more(CONNECT_S)
        try:
            self._socket = self._connected()
        except TimeoutError:
            raise NoConnection(f"no answer within {CONNECT_S:g} s") from None
        except UnicodeError:
            raise NoConnection("its host's name is none") from None
        except OSError as error:
            raise NoConnection(_reason(error)) from None
        if tls is not None:
            self._socket = self._secured(self._socket, tls)
        self.expect_more(timeout_s)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def expect_more(self, timeout_s: float) -> None:
        """Set the deadline to `timeout_s` from now."""
        self._deadline_ns = self._clock.now_ns() + round(timeout_s * NS_PER_S)

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HTTPResponse:
        """Send the request; return the answer once its head has come. Raises OSError or HTTPException."""
        connection = HTTPConnection(self._host, self._port)
        connection.sock = _Endpoint(self)
        connection.request(method, path, body, {**headers, "Connection": "close"})
        return connection.getresponse()

    def send(self, data: memoryview) -> int:
        return self._wait(lambda: self._socket.send(data))

    def receive(self, buffer: bytearray | memoryview) -> int:
        if not self._has_received():
            self.waits += 1
        return self._wait(lambda: self._socket.recv_into(buffer))

    def _has_received(self) -> bool:
        decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        return decrypted or bool(select.select([self._socket], [], [], 0)[0])

    def _wait(self, attempt: Callable[[], T]) -> T:
        """Repeat an operation of the socket, which gives up after POLL_S, until it succeeds."""
        while True:
            if self._should_stop():
                raise Stopped
            if self._clock.now_ns() > self._deadline_ns:
                raise TimeoutError
            try:
                return attempt()
            except TimeoutError:
                continue

    def _connected(self) -> socket.socket:
        problem = OSError("the host has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM):
            candidate = socket.socket(family, kind, protocol)
            try:
                self._connect(candidate, address)
                return candidate
            except OSError as error:
                candidate.close()
                problem = error
            except Stopped:
                candidate.close()
                raise
        raise problem

    def _secured(self, plain: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
        secured = tls.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            self._wait(secured.do_handshake)
        except BaseException as error:
            secured.close()
            if isinstance(error, ssl.SSLCertVerificationError) or not isinstance(error, OSError):
                raise
            timed_out = isinstance(error, TimeoutError)
            raise NoTls(f"no handshake within {CONNECT_S:g} s" if timed_out else _reason(error)) from None
        return secured

    def _connect(self, candidate: socket.socket, address: tuple[object, ...]) -> None:
        candidate.setblocking(False)
        code = candidate.connect_ex(address)
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._wait(lambda: _writable(candidate))
            code = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            raise OSError(code, os.strerror(code))
        candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        candidate.settimeout(POLL_S)


def _writable(candidate: socket.socket) -> None:
    if not select.select([], [candidate], [], POLL_S)[1]:
        raise TimeoutError


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


class _Endpoint:
    """What http.client asks of a socket. Closing is left to the Connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._connection.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._connection))

    def close(self) -> None:
        return


class _Incoming(io.RawIOBase):
    """The bytes that arrive on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._connection.receive(buffer)


def events(response: HTTPResponse) -> Iterator[str]:
    """The data of each server-sent event as it arrives, up to the end of the answer.

    Raises EventTooLong, and HTTPException when the answer breaks off, where its coding tells.
    """
    parser = EventParser()
    while block := response.read1(_BLOCK_BYTES):
        yield from parser.feed(block)


class EventParser:
    """The events in bytes that come in any pieces (WHATWG HTML, section 9.2.6): a line ends with CR, LF or both, a
    blank one ends an event, and a byte order mark may come first. Keeps MAX_EVENT_BYTES at most."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._event_bytes = 0
        self._first = True  # of the lines
        self._after_cr = False  # a line feed belongs to the line before

    def feed(self, block: bytes) -> Iterator[str]:
        if self._after_cr:
            block = block.removeprefix(b"\n")
        self._after_cr = block.endswith(b"\r")
        for piece in block.splitlines(keepends=True):
            self._event_bytes += len(piece)
            if self._event_bytes > MAX_EVENT_BYTES:
                raise EventTooLong
            self._line += piece
            if piece.endswith((b"\r", b"\n")):
                yield from self._end_line()

    def _end_line(self) -> Iterator[str]:
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if self._first:
            line, self._first = line.removeprefix(_BYTE_ORDER_MARK), False
        field, _, value = line.decode("utf-8", errors="replace").partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif not line:
            data, self._data, self._event_bytes = self._data, [], 0
            if data:
                yield "\n".join(data)
