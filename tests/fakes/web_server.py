"""A server of the page that says what a test tells it to: real WebRTC, no engines.

It runs in a thread of its own, so that a test can drive a browser and the server at once.
"""

import asyncio
import fractions
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
from aiohttp import web
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamTrack

from agent.web.messages import Answer, Hello, Pong, Refusal, ToPage, to_json
from agent.web.server import HEADERS, PAGE

RATE_HZ, FRAME = 48_000, 960


class Tone(MediaStreamTrack):
    """Silence at real pace, and 440 Hz for as long as asked."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.frame, self.until, self.start_s = 0, 0, 0.0

    def beep(self, seconds: float) -> float:
        """The monotonic time at which it begins to leave."""
        self.until = self.frame + round(seconds * RATE_HZ / FRAME)
        return self.start_s + self.frame * FRAME / RATE_HZ

    async def recv(self) -> av.AudioFrame:
        self.start_s = self.start_s or time.monotonic()
        await asyncio.sleep(max(0.0, self.start_s + self.frame * FRAME / RATE_HZ - time.monotonic()))
        at = np.arange(FRAME) + self.frame * FRAME
        level = 9000 if self.frame < self.until else 0
        samples = (level * np.sin(2 * np.pi * 440 * at / RATE_HZ)).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, self.frame * FRAME, fractions.Fraction(1, RATE_HZ)
        self.frame += 1
        return frame


@dataclass
class Caller:
    """A page that called: `received` are its messages but for pings, `session` is what its offer named."""

    peer: RTCPeerConnection
    tone: Tone
    session: str | None
    channel: RTCDataChannel | None = None
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    silent: bool = False


class FakeServer:
    """`greeting` is sent to each caller as its channel opens; `refusal` answers every offer while it is set; an
    `unreachable` server names addresses to which no sound comes."""

    def __init__(self, greeting: list[ToPage]) -> None:
        self.greeting, self.refusal, self.refusal_status = greeting, None, 503
        self.unreachable = False
        self.callers: list[Caller] = []
        self.byes: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        self.address = self._run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def refuse(self, refusal: Refusal | None, status: int = 503) -> None:
        self.refusal, self.refusal_status = refusal, status

    def say(self, *messages: ToPage, caller: int = -1) -> None:
        self._run(self._say(self.callers[caller], messages))

    def beep(self, seconds: float) -> float:
        """A tone for the newest caller; the server's time at which it leaves, in seconds."""
        return self._run(self._called(lambda: self.callers[-1].tone.beep(seconds)))

    def drop(self) -> None:
        """Close the newest caller's connection."""
        self._run(self.callers[-1].peer.close())

    def fall_silent(self) -> None:
        """Answer the newest caller no more, with the connection left open."""
        self.callers[-1].silent = True

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _called(self, function: Callable[[], Any]) -> Any:
        return function()

    async def _say(self, caller: Caller, messages: tuple[ToPage, ...]) -> None:
        assert caller.channel is not None
        for message in messages:
            caller.channel.send(to_json(message))

    async def _open(self) -> str:
        app = web.Application(middlewares=[_with_policy])
        app.router.add_get("/", _index)
        app.router.add_static("/static", PAGE)
        app.router.add_get("/report/run", _report)
        app.router.add_post("/offer", self._offer)
        app.router.add_post("/bye", self._bye)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def _close(self) -> None:
        for caller in self.callers:
            await caller.peer.close()
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)

    async def _bye(self, request: web.Request) -> web.Response:
        self.byes.append(json.loads(await request.text())["session"])
        return web.Response(status=204)

    async def _offer(self, request: web.Request) -> web.Response:
        offer = await request.json()
        if self.refusal is not None:
            refusal = {"error": self.refusal.error, "full": self.refusal.full}
            return web.json_response(refusal, status=self.refusal_status)
        caller = Caller(RTCPeerConnection(RTCConfiguration(iceServers=[])), Tone(), offer["session"])
        self.callers.append(caller)
        caller.peer.on("datachannel", lambda channel: self._greet(caller, channel))
        caller.peer.addTrack(caller.tone)
        await caller.peer.setRemoteDescription(RTCSessionDescription(offer["sdp"], "offer"))
        await caller.peer.setLocalDescription(await caller.peer.createAnswer())
        sdp = caller.peer.localDescription.sdp
        if self.unreachable:
            sdp = re.sub(r"a=(candidate:.*|end-of-candidates)\r\n", "", sdp)
            sdp = sdp.replace("a=ice-pwd:", "a=ice-pwd:wrong")
        answer = Answer(sdp, next(hello.session for hello in self.greeting if isinstance(hello, Hello)))
        return web.json_response({"sdp": answer.sdp, "session": answer.session})

    def _greet(self, caller: Caller, channel: RTCDataChannel) -> None:
        caller.channel = channel
        channel.on("message", lambda data: self._receive(caller, json.loads(data)))
        for message in self.greeting:
            channel.send(to_json(message))

    def _receive(self, caller: Caller, message: dict[str, Any]) -> None:
        if message["type"] != "ping":
            caller.received.append(message)
        elif not caller.silent and caller.channel is not None:
            caller.channel.send(to_json(Pong(message["id"], time.monotonic() * 1000)))


async def _index(_: web.Request) -> web.StreamResponse:
    return web.FileResponse(PAGE / "index.html")


async def _report(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<!doctype html><h1>The report</h1>", content_type="text/html")


@web.middleware
async def _with_policy(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    response = await handler(request)
    response.headers.update(HEADERS)
    return response
