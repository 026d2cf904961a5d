"""One HTTP request that can be given up at any moment: every wait for the server looks at `should_stop`, and a streamed
answer comes event by event."""

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


class Stopped(Exception):
    """`should_stop` turned true while the server was waited for."""


class NoConnection(OSError):
    """The server cannot be reached."""


class Connection:
    """A connection to `host`, over TLS when a context for it is given, for one request and its answer.

    Leaving the `with` block closes it, by which the server learns that the answer is not wanted any more. Whatever
    waits for the network raises Stopped within POLL_S of `should_stop` turning true (looking up the host's name does
    not), and TimeoutError when the clock passes the deadline: CONNECT_S for the connection, then `timeout_s` from the
    request on, and from each call of `expect_more` on.
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
        self.expect_more(CONNECT_S)
        try:
            self._socket = self._connected()
        except TimeoutError:
            raise NoConnection(f"no answer within {CONNECT_S:g} s") from None
        except UnicodeError:
            raise NoConnection("its host's name is none") from None
        except OSError as error:
            raise NoConnection(error.strerror or str(error)) from None
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
        connection.sock = _Endpoint(self._socket, self.wait)
        connection.request(method, path, body, {**headers, "Connection": "close"})
        return connection.getresponse()

    def wait(self, attempt: Callable[[], T]) -> T:
        """Repeat an operation of the socket, which gives up after POLL_S, until it succeeds."""
        while True:
            if self._should_stop():
                raise Stopped
            try:
                return attempt()
            except TimeoutError:
                if self._clock.now_ns() > self._deadline_ns:
                    raise

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
            self.wait(secured.do_handshake)
        except BaseException as error:
            secured.close()
            if isinstance(error, TimeoutError):
                raise NoConnection(f"no TLS handshake within {CONNECT_S:g} s") from None
            raise
        return secured

    def _connect(self, candidate: socket.socket, address: tuple[object, ...]) -> None:
        candidate.setblocking(False)
        code = candidate.connect_ex(address)
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            self.wait(lambda: _writable(candidate))
            code = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            raise OSError(code, os.strerror(code))
        candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        candidate.settimeout(POLL_S)


def _writable(candidate: socket.socket) -> None:
    if not select.select([], [candidate], [], POLL_S)[1]:
        raise TimeoutError


class _Endpoint:
    """What http.client asks of a socket. Closing is left to the Connection."""

    def __init__(self, sock: socket.socket, wait: Callable[[Callable[[], int]], int]) -> None:
        self._socket, self._wait = sock, wait

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._wait(lambda rest=rest: self._socket.send(rest)) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._socket, self._wait))

    def close(self) -> None:
        return


class _Incoming(io.RawIOBase):
    """The bytes that arrive on a socket. TLS bytes that are decrypted already are given without a wait."""

    def __init__(self, sock: socket.socket, wait: Callable[[Callable[[], int]], int]) -> None:
        self._socket, self._wait = sock, wait

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._wait(lambda: self._socket.recv_into(buffer))


def events(response: HTTPResponse) -> Iterator[str]:
    """The data of each server-sent event as it arrives, up to the end of the answer (WHATWG HTML, section 9.2.6).

    Raises HTTPException when the answer breaks off, where its coding tells.
    """
    data: list[str] = []
    for line in response:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        field, _, value = text.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not text and data:
            yield "\n".join(data)
            data = []
