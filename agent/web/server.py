"""The HTTP side: the page, offers, reports. `messages` says what each route takes and gives."""

import asyncio
import errno
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import TurnscopeError
from agent.web.calls import Calls, Full
from agent.web.guard import COOKIE, MAX_BODY_BYTES, Guard, OfferRate, Rate
from agent.web.messages import Refusal, Refused, parse_bye, parse_offer
from agent.web.service import Service

PAGE = Path(__file__).parent / "page"
MAX_CONNECTIONS = 64
REPORTS = 10  # in ten seconds: making one takes a core for a while
CONNECTION_S = 10.0  # from the first byte of a request to the last of its answer, whatever the other side does
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_FILE = re.compile(r"[a-z0-9_-]+(\.[a-z]+)")
_RUN = re.compile(r"\w[\w.-]{0,200}", re.ASCII)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Address:
    """`tls` has the certificate, where there is one. Port 0 is any that is free."""

    host: str
    port: int
    token: str | None = None
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Raises TurnscopeError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = error.strerror or error if isinstance(error, OSError) else error
        raise TurnscopeError(
            f"{certificate} and {key} cannot be used ({why}): give a PEM certificate and its key, without a password."
        ) from None
    return context


@asynccontextmanager
async def serving(
    service: Service, address: Address, rate: OfferRate | None = None, at: socket.socket | None = None
) -> AsyncIterator[Address]:
    """Serve for as long as the block lasts, which is told where; then every call is ended and written. `at` is the
    address `claimed` before. Raises TurnscopeError when it cannot be had."""
    calls = Calls(service)
    runner = _Connections()
    at = at or claimed(address)
    try:
        handshake_s = 5.0 if address.tls else None
        server = await asyncio.get_running_loop().create_server(
            runner.new, sock=at, ssl=address.tls, ssl_handshake_timeout=handshake_s
        )
    except OSError as error:
        at.close()
        raise _not_served(address, error) from None
    bound = Address(address.host, server.sockets[0].getsockname()[1], address.token, address.tls)
    guard = Guard(bound.host, bound.port, bound.token, encrypted=bound.tls is not None)
    try:
        await runner.begin(_application(_Routes(service, calls, guard, rate or OfferRate()), _guarded(guard, service)))
        yield bound
    finally:
        server.close()
        await calls.close()
        await runner.end()


def claimed(address: Address) -> socket.socket:
    """The address is ours; nobody is let in yet. Raises TurnscopeError when it cannot be had."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, ValueError) as error:
        raise TurnscopeError(f"{address.host} is no address of this machine ({error}): give another --host.") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(name)
    except OSError as error:
        found.close()
        raise _not_served(address, error) from None
    return found


def _not_served(address: Address, error: OSError) -> TurnscopeError:
    where = f"{address.host}:{address.port}"
    if error.errno == errno.EADDRINUSE:
        return TurnscopeError(f"{where} is in use by another program: give another --port.")
    return TurnscopeError(f"{where} cannot be served ({error.strerror or error}): give another --host or --port.")


class _Connections:
    """At most so many at once, each for one request and for a bounded time."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None

    async def begin(self, application: web.Application) -> None:
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.5)
        await runner.setup()
        self._runner = runner

    async def end(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def new(self) -> asyncio.Protocol:
        server = self._runner.server if self._runner else None
        return _First(server() if server and len(server.connections) < MAX_CONNECTIONS else None)


class _First(asyncio.Protocol):
    """Meets a connection: passes it on to the handler, or turns it away."""

    def __init__(self, handler: asyncio.Protocol | None):
        self._handler = handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._handler is None:
            transport.abort()
            return
        transport.set_protocol(self._handler)
        self._handler.connection_made(transport)
        asyncio.get_running_loop().call_later(CONNECTION_S, transport.abort)


def _application(routes: "_Routes", judge: Middleware) -> web.Application:
    application = web.Application(middlewares=[judge], client_max_size=MAX_BODY_BYTES)
    application.router.add_get("/", routes.page)
    application.router.add_get("/static/{file}", routes.file)
    application.router.add_post("/offer", routes.offer)
    application.router.add_post("/bye", routes.bye)
    application.router.add_get("/report/{run}", routes.report)
    application.on_response_prepare.append(_harden)
    return application


async def _harden(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.force_close()


def _guarded(guard: Guard, service: Service) -> Middleware:
    @web.middleware
    async def judge(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not guard.right_host(request.headers.get("Host")):
            return refusal(403, "This server does not go by that name: open the address that it printed.")
        if request.method != "GET" and not guard.same_origin(request.headers):
            return refusal(403, "Only this server's own page may ask that.")
        if not guard.knows(request.cookies) and not _shows_token(request, guard):
            return refusal(401, "Open the address with its token: /?token=...")
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            return refusal(413, f"That is too large: at most {MAX_BODY_BYTES // 1024} KiB are taken.")
        except web.HTTPException as error:
            return refusal(error.status, error.reason)
        except Exception as error:
            service.note(f"{request.method} {request.path} failed: {type(error).__name__}: {error}")
            return refusal(500, "Something unexpected went wrong on the server.")

    return judge


def _shows_token(request: web.Request, guard: Guard) -> bool:
    return request.path == "/" and guard.is_token(request.query.get("token", ""))


def refusal(status: int, sentence: str, *, full: bool = False) -> web.Response:
    return _json(asdict(Refusal(sentence, full)), status)


def _json(content: Mapping[str, object], status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(content), status=status, content_type="application/json")


class _Routes:
    def __init__(self, service: Service, calls: Calls, guard: Guard, rate: OfferRate):
        self._service = service
        self._calls = calls
        self._guard = guard
        self._rate = rate
        self._reports = Rate(REPORTS)
        self._reporting = asyncio.Lock()

    async def page(self, request: web.Request) -> web.Response:
        if "token" in request.query and _shows_token(request, self._guard):
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(
                COOKIE, self._guard.cookie, httponly=True, samesite="Strict", secure=request.secure, path="/"
            )
            return response
        return _file("index.html")

    async def file(self, request: web.Request) -> web.Response:
        return _file(request.match_info["file"])

    async def offer(self, request: web.Request) -> web.Response:
        if not self._rate.allows(request.remote or "", asyncio.get_running_loop().time()):
            return refusal(429, "Too many calls in a short time: wait ten seconds.")
        if request.content_type != "application/json":
            return refusal(415, "An offer is application/json.")
        try:
            answer = await self._calls.offer(parse_offer(await request.read()))
        except Refused as error:
            return refusal(400, f"{str(error)[:1].upper()}{str(error)[1:]}.")
        except Full as error:
            return refusal(503, str(error), full=True)
        return _json(asdict(answer))

    async def bye(self, request: web.Request) -> web.Response:
        self._calls.bye(parse_bye(await request.read()))
        return web.Response(status=204)

    async def report(self, request: web.Request) -> web.Response:
        run = request.match_info["run"]
        if not self._reports.allows(asyncio.get_running_loop().time()):
            return refusal(429, "Too many reports in a short time: wait ten seconds.")
        async with self._reporting:
            html = await asyncio.to_thread(self._service.report, run) if _RUN.fullmatch(run) else None
        if html is None:
            return refusal(404, "There is no such run.")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return web.Response(text=html, content_type="text/html", charset="utf-8", headers=headers)


def _file(name: str) -> web.Response:
    match = _FILE.fullmatch(name)
    path = PAGE / name
    if match is None or match[1] not in TYPES or not path.is_file():
        raise web.HTTPNotFound
    kind = TYPES[match[1]]
    return web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8" if kind.startswith("text") else None)
