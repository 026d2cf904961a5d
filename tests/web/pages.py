"""A page and a server for tests: the page is an aiortc peer with a microphone that says what it is told to."""

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame

from agent.audio.pace import precise_loop
from agent.audio.resample import resample
from agent.audio.webrtc import mono, pass_through
from agent.cli.turn_view import turn_view
from agent.events import Event
from agent.web.guard import OfferRate
from agent.web.server import Address, serving
from agent.web.service import CallRecorder, Service
from profiling.run import RunWriter
from profiling.trace.timeline import Turn
from tests.web.tones import BusyClock, speech, tone_engines, tone_settings


def run(main: Coroutine[Any, Any, None], limit_s: float = 14.0) -> None:
    async def limited() -> None:
        async with asyncio.timeout(limit_s):
            await main

    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(limited())


class Run:
    """A call's run folder, and what was given to it."""

    def __init__(self, parent: Path, clock: BusyClock):
        self.writer = RunWriter(parent, "call", clock)
        self.events: list[Event] = []
        self.complete: bool | None = None

    @property
    def name(self) -> str:
        return self.writer.folder.name

    @property
    def turns(self) -> list[Turn]:
        return [event.turn for event in self.events if type(event).__name__ == "TurnEnded"]  # type: ignore[union-attr]

    def observe(self, event: Event) -> None:
        self.events.append(event)
        if type(event).__name__ == "TurnEnded":
            self.writer.write_turn(event.turn)

    def close(self, complete: bool) -> None:
        self.complete = complete
        self.writer.close(complete)


@dataclass
class House:
    """A server with fake engines."""

    folder: Path
    limit: int = 3
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    token: str | None = None
    open_recorder: Callable[[], CallRecorder] | None = None

    def __post_init__(self) -> None:
        self.clock = BusyClock()
        self.engines = tone_engines()
        self.url = ""
        self.rate = OfferRate()

    def service(self) -> Service:
        return Service(
            self.engines,
            tone_settings(),
            self.clock,
            open_run=self._open_run,
            view=turn_view,
            report=lambda name: f"<p>{name}</p>" if name in [run.name for run in self.runs] else None,
            note=self.notes.append,
            limit=self.limit,
            open_recorder=self.open_recorder,
        )

    def allow_offers(self) -> None:
        """As if much time had passed since the last offer."""
        self.rate._by_address.clear()
        self.rate._all._times.clear()

    def _open_run(self) -> Run:
        self.runs.append(Run(self.folder, self.clock))
        return self.runs[-1]


@asynccontextmanager
async def open_house(folder: Path, **others: Any) -> AsyncIterator[House]:
    house = House(folder, **others)
    try:
        address = Address("127.0.0.1", 0, house.token)
        async with serving(house.service(), address, house.rate) as bound:
            house.url = bound.url
            yield house
    finally:
        await house.engines.workers.close()


class Microphone(MediaStreamTrack):
    """Stereo at 48 kHz, as a browser's; silence where nothing is said."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._sound: deque[np.ndarray] = deque()
        self._number = 0
        self._start_s = 0.0

    def say(self, text: str) -> None:
        sound = resample(speech(text), 16_000, 48_000)
        sound = np.concatenate([sound, np.zeros(-len(sound) % 960, np.float32)])
        self._sound.extend(sound.reshape(-1, 960))

    async def recv(self) -> AudioFrame:
        self._start_s = self._start_s or time.monotonic()
        await asyncio.sleep(self._start_s + self._number * 0.02 - time.monotonic())
        samples = self._sound.popleft() if self._sound else np.zeros(960, np.float32)
        both = np.repeat(np.rint(samples * 32767).astype(np.int16), 2)
        frame = AudioFrame.from_ndarray(both[np.newaxis], format="s16", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._number * 960, Fraction(1, 48_000)
        self._number += 1
        return frame


class Page:
    """Says, hears and is told; pings as the real one."""

    def __init__(self, url: str, session: str | None = None):
        self.url = url
        self.session = session
        self.microphone = Microphone()
        self.messages: list[dict[str, Any]] = []
        self.sound: list[np.ndarray] = []
        self.answers_heard = True
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def call(self) -> "Page":
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.pc.addTrack(self.microphone)
        self.channel = self.pc.createDataChannel("turnscope")
        self.channel.on("message", self._take)
        self.pc.on("track", lambda track: self._tasks.append(asyncio.create_task(self._listen(track))))
        await self.pc.setLocalDescription(await self.pc.createOffer())
        for receiver in self.pc.getReceivers():
            pass_through(receiver)
        status, answer = await post(self.url, "offer", {"sdp": self.pc.localDescription.sdp, "session": self.session})
        if status != 200:
            await self.close()
            raise RefusedCall(status, answer)
        self.session = answer["session"]
        await self.pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], "answer"))
        self._tasks.append(asyncio.create_task(self._ping()))
        await self.told("hello")
        await self.told("state", phase="listening")
        return self

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.pc.close()

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            message
            for message in self.messages
            if message["type"] == kind and all(message.get(key) == value for key, value in fields.items())
        ]

    async def told(self, kind: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        while len(found := self.of(kind, **fields)) < count:
            self._told.clear()
            await self._told.wait()
        return found[count - 1]

    def send(self, **message: Any) -> None:
        self.channel.send(json.dumps(message))

    @property
    def heard(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.float32), *self.sound])

    def lose(self, share: float) -> None:
        """Of the packets that it sends, from now on."""
        transport, chance = self.pc.getSenders()[0].transport, random.Random(1)
        send = transport._send_rtp

        async def lossy(data: bytes) -> None:
            if chance.random() >= share:
                await send(data)

        transport._send_rtp = lossy

    def vanish(self) -> None:
        """Nothing goes out and nothing comes in any more, without a word."""
        for task in self._tasks:
            task.cancel()
        for protocol in self.pc.getSenders()[0].transport.transport._connection._protocols:
            protocol.transport.sendto = lambda *_, **__: None
            protocol.datagram_received = lambda *_, **__: None

    def _take(self, data: str) -> None:
        message = json.loads(data)
        message["page_s"] = time.monotonic()
        self.messages.append(message)
        if message["type"] == "audible" and self.answers_heard:
            heard_ms = max(message["at_ms"], time.monotonic() * 1e3) + 40
            self.send(type="heard", turn=message["turn"], page_ms=heard_ms, offset_ms=0, error_ms=0.5, output_ms=30)
        self._told.set()

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                self.sound.append(mono(await track.recv()))
        except MediaStreamError:
            return

    async def _ping(self) -> None:
        number = 0
        while True:
            if self.channel.readyState == "open":
                self.send(type="ping", id=(number := number + 1))
            await asyncio.sleep(0.2)


class RefusedCall(Exception):
    def __init__(self, status: int, answer: dict[str, Any]):
        super().__init__(status, answer)
        self.status, self.answer = status, answer


async def post(url: str, route: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
    """As the page posts; headers may be changed, and are left out where they are empty."""
    named = {"Content-Type": "application/json", "Origin": url.rstrip("/")}
    named |= {key.replace("_", "-"): value for key, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {key: value for key, value in named.items() if value}
    async with aiohttp.ClientSession() as session, session.post(url + route, data=data, headers=sent) as response:
        return response.status, await response.json() if response.content_type == "application/json" else {}


async def until(happened: Callable[[], bool], within_s: float) -> float:
    """Seconds that it took. Fails when it takes longer."""
    start_s = time.monotonic()
    while not happened():
        assert time.monotonic() - start_s < within_s, "it did not happen in time"
        await asyncio.sleep(0.01)
    return time.monotonic() - start_s
