"""One peer connection: sound in and out, and messages beside it."""

import asyncio
from collections.abc import Callable

import aioice.ice
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamTrack

from agent.audio.webrtc import WebRtcEdge, pass_through
from agent.web.guard import Rate, check_offer
from agent.web.messages import CHANNEL, FromPage, Refused, ToPage, parse, to_json

ANSWER_S = 5.0  # an offer may name addresses that have to be looked up
CONNECT_S = 10.0
GONE_S = 1.5  # without sound and without a message
CLOSE_S = 0.4
TICK_S = 0.1
MAX_UNREAD_BYTES = 1 << 20  # of a page that does not read
MESSAGES, MESSAGES_PER_S = 200, 2.0  # beyond so many messages in so many seconds they are not read


class Line:
    """`on_open` is called when messages can be sent, `on_message` for every message of the page that can be read."""

    def __init__(self, edge: WebRtcEdge, on_open: Callable[[], None], on_message: Callable[[FromPage], None]):
        self._edge = edge
        self._on_open = on_open
        self._on_message = on_message
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._outgoing = edge.outgoing()
        self._incoming: MediaStreamTrack | None = None
        self._channel: RTCDataChannel | None = None
        self._listening: asyncio.Task[None] | None = None
        self._rate = Rate(MESSAGES, MESSAGES_PER_S)
        self._seen = False
        self._connected = asyncio.Event()
        self._closed = asyncio.Event()
        self._pc.on("track", self._have_track)
        self._pc.on("datachannel", self._have_channel)
        self._pc.on("connectionstatechange", self._state_changed)

    @property
    def open(self) -> bool:
        return self._channel is not None and self._channel.readyState == "open" and not self._closed.is_set()

    async def answer(self, sdp: str) -> str:
        """The answer to an offer. Raises Refused; the line is then closed."""
        check_offer(sdp)
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
                self._pc.addTrack(self._outgoing)
                await self._pc.setLocalDescription(await self._pc.createAnswer())
                for receiver in self._pc.getReceivers():
                    pass_through(receiver)
        except Exception as error:  # aiortc tells what is wrong with an offer in many ways
            await self.close()
            raise Refused("the offer cannot be answered") from error
        except asyncio.CancelledError:
            await self.close()
            raise
        return self._pc.localDescription.sdp

    async def connected(self) -> bool:
        """Wait for the page; False when it does not come in time, or has gone."""
        waits = [asyncio.create_task(event.wait()) for event in (self._connected, self._closed)]
        try:
            await asyncio.wait(waits, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._connected.is_set() and not self._closed.is_set()

    def take(self) -> None:
        """Speak and listen on this line from now on."""
        self._outgoing.take()
        if self._incoming is not None:
            self._listening = asyncio.create_task(self._edge.listen(self._incoming, self._see))

    def leave(self) -> None:
        """Another line takes over."""
        self._outgoing.leave()
        if self._listening is not None:
            self._listening.cancel()

    async def gone(self) -> None:
        """Return when the page has gone: it hung up, or nothing has come from it for a while in which we could have
        noticed it."""
        silent_s = 0.0
        loop = asyncio.get_running_loop()
        while silent_s < GONE_S and not self._closed.is_set():
            before_s, self._seen = loop.time(), False
            try:
                async with asyncio.timeout(TICK_S):
                    await self._closed.wait()
            except TimeoutError:
                silent_s = 0.0 if self._seen else silent_s + min(loop.time() - before_s, 2 * TICK_S)

    def send(self, message: ToPage) -> bool:
        """False when it could not be sent."""
        if self._channel is None or not self.open:
            return False
        if self._channel.bufferedAmount > MAX_UNREAD_BYTES:
            self._closed.set()
            return False
        self._channel.send(to_json(message))
        return True

    async def close(self) -> None:
        """Within a bound."""
        self._closed.set()
        self.leave()
        self._outgoing.stop()
        closing = asyncio.create_task(self._pc.close())
        await asyncio.wait([closing], timeout=CLOSE_S)

    def _see(self) -> None:
        self._seen = True

    def _have_track(self, track: MediaStreamTrack) -> None:
        self._incoming = track

    def _have_channel(self, channel: RTCDataChannel) -> None:
        if self._channel is None and channel.label == CHANNEL:
            self._channel = channel
            channel.on("message", self._have_message)
            channel.on("close", self._closed.set)
            self._on_open()

    def _have_message(self, data: str | bytes) -> None:
        self._seen = True
        if not self._rate.allows(asyncio.get_running_loop().time()):
            return
        try:
            message = parse(data)
        except Refused:
            return
        if message is not None:
            self._on_message(message)

    def _state_changed(self) -> None:
        if self._pc.connectionState == "connected":
            self._connected.set()
        elif self._pc.connectionState in ("closed", "failed"):
            self._closed.set()


def _addresses(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    """Those of the machine; on one without a network, its own."""
    return _host_addresses(use_ipv4, use_ipv6) or ["127.0.0.1"]


_host_addresses = aioice.ice.get_host_addresses
aioice.ice.get_host_addresses = _addresses
