"""The microphone and the loudspeaker of this machine as an edge of the conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import numpy as np

from agent.audio import sound_devices
from agent.audio.c_stderr import c_libraries_silenced
from agent.audio.device_clock import DeviceClock
from agent.audio.device_streams import Block, InputStream, OutputStream
from agent.audio.echo import EchoCanceller
from agent.audio.intake import Intake
from agent.audio.output_track import OutputTrack
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet
from agent.audio.sound_devices import SoundDevice
from agent.errors import TurnscopeError
from agent.job import ShouldStop
from agent.watch import Bound
from agent.worker import ThreadWorker, once
from profiling.trace.clock import Clock

T = TypeVar("T")
_ANSWER_S = 10.0  # how long the sound system may take to open the devices
_CLOSE_S = 1.0  # and to let them go, and to end what it is at, before it is left to itself
_SETTLE_S = 5.0  # how long the devices may take until their sound runs evenly
_SILENT_S = 1.0  # a device that has not called for so long is gone
_LOOK_S = 0.25  # how often that is looked at where no sound comes
_RETRY_S = 1.0


class DeviceGone(TurnscopeError):
    """A device was unplugged, or its sound server ended."""


@dataclass(frozen=True)
class _Streams:
    input: InputStream
    output: OutputStream

    def close(self) -> None:
        for stream in (self.input, self.output):
            stream.close()


class Microphone:
    """An `Edge`: a microphone, whose sound comes in at 16 kHz without the loudspeaker's echo, and a loudspeaker, which
    plays `track`. The two may be different devices; each keeps its own time, which is when sound crosses its converter.

    Open it with `async with`, or `open` and `close`, on the event loop that uses it. `microphone` and `loudspeaker` are
    names or numbers (None: the system's default); `headset` switches echo cancellation off. `overflows` and
    `underruns` count the blocks that came late or were lost, in and out. One per process: PortAudio is shared.
    """

    def __init__(
        self,
        clock: Clock,
        voice_rate_hz: int,
        microphone: str | None = None,
        loudspeaker: str | None = None,
        *,
        headset: bool = False,
    ):
        self.capture = DeviceClock(CAPTURE_RATE_HZ, fills_gaps=True)
        self._playing = DeviceClock(voice_rate_hz)
        self.track = OutputTrack(self._playing)
        self.overflows = self.underruns = 0
        self._clock = clock
        self._wanted = microphone, loudspeaker
        self._headset = headset
        self._worker = ThreadWorker("sound devices", clock, Bound(reentrant=False, name="the sound system"))
        self._silenced = ExitStack()
        self._streams: _Streams | None = None
        self._intake: Intake | None = None
        self._canceller: EchoCanceller | None = None
        self._changed = asyncio.Event()
        self._packets: asyncio.Queue[Packet | None] | None = None
        self._closed = False

    @property
    def devices(self) -> tuple[SoundDevice, SoundDevice] | None:
        """The microphone and the loudspeaker in use; None while there is none."""
        streams = self._streams
        return (streams.input.device, streams.output.device) if streams else None

    async def open(self) -> None:
        """Returns once sound runs both ways. Raises TurnscopeError, in one sentence, when it cannot."""
        self._silenced.enter_context(c_libraries_silenced())
        try:
            await self._open(afresh=False)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the packets, and let the devices go, within a bound."""
        self._closed = True
        self._wake()
        try:
            with suppress(TurnscopeError):
                await self._let_go(_CLOSE_S)
            await self._worker.close(_CLOSE_S)
        finally:
            self._silenced.close()

    async def __aenter__(self) -> "Microphone":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def packets(self) -> AsyncIterator[Packet]:
        """What is captured from now on, in packets of 20 ms, until `close`. Raises DeviceGone when a device is gone: as
        soon as its stream ends, or a second after it has fallen silent."""
        packets = self._packets = asyncio.Queue()
        try:
            while not self._closed:
                self._require_devices(_SILENT_S)
                with suppress(TimeoutError):
                    packet = await asyncio.wait_for(packets.get(), _LOOK_S)
                    if packet is not None:
                        yield packet
        finally:
            self._packets = None

    async def wait_for_device(self) -> None:
        """After DeviceGone: try once a second until both devices are there again. Sample numbers go on as time did."""
        while True:
            with suppress(TurnscopeError):
                await self._open(afresh=True)
                return
            await asyncio.sleep(_RETRY_S)

    async def _open(self, *, afresh: bool) -> None:
        await self._let_go(_ANSWER_S)
        loop = asyncio.get_running_loop()
        self._streams = await self._ask(lambda should_stop: self._start(loop, should_stop, afresh=afresh), _ANSWER_S)
        try:
            await asyncio.wait_for(self._until_settled(), _SETTLE_S)
        except TimeoutError:
            self._require_devices(_SILENT_S)
            raise TurnscopeError("The sound of the devices does not run evenly: choose others.") from None

    async def _until_settled(self) -> None:
        while not (self.capture.settled and self._playing.settled):
            self._require_devices(_SETTLE_S)  # some devices take seconds to wake up
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _LOOK_S)

    def _require_devices(self, silent_s: float) -> None:
        """Raises DeviceGone when a stream has ended, or not called for so long."""
        streams = (self._streams.input, self._streams.output) if self._streams else ()
        gone = [stream.device.name for stream in streams if stream.is_gone(silent_s)]
        if gone or not streams:
            names = " and ".join(repr(name) for name in dict.fromkeys(gone))
            what = f"No sound runs any more through {names}" if names else "No sound device is open"
            raise DeviceGone(f"{what}: plug the device in again, or choose another.")

    async def _let_go(self, within_s: float) -> None:
        streams, self._streams, self._intake, self._canceller = self._streams, None, None, None
        if streams is not None:
            await self._ask(lambda _: streams.close(), within_s)

    async def _ask(self, work: Callable[[ShouldStop], T], within_s: float) -> T:
        """Do what may block on the worker's thread. Raises TurnscopeError when that takes too long."""
        job = self._worker.submit("sound", once(work))
        try:
            return await asyncio.wait_for(job.result(), within_s)
        except TimeoutError:
            raise TurnscopeError("The sound system does not answer: start the sound server anew.") from None
        finally:
            job.cancel()

    def _start(self, loop: asyncio.AbstractEventLoop, should_stop: ShouldStop, *, afresh: bool) -> _Streams:
        """On the worker's thread. `afresh`: see devices that were plugged in meanwhile."""
        if afresh:
            sound_devices.refresh()
        devices = sound_devices.table()
        microphone = sound_devices.choose(devices, "input", self._wanted[0])
        loudspeaker = sound_devices.choose(devices, "output", self._wanted[1])

        def on_loop(function: Callable[..., None], *arguments: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(function, *arguments)

        inward = InputStream(
            microphone,
            self._clock,
            lambda block: on_loop(self._captured, inward, block),
            lambda: on_loop(self._wake),
        )
        outward = OutputStream(
            loudspeaker,
            self._clock,
            lambda block: on_loop(self._played, outward, block),
            lambda: on_loop(self._wake),
            self._playing,
            self.track,
        )
        self.capture.begin(inward.format.rate_hz)
        self._playing.begin(outward.format.rate_hz)
        streams = _Streams(inward, outward)
        try:
            outward.start()
            inward.start()
        except BaseException:
            streams.close()
            raise
        if should_stop():
            streams.close()
        return streams

    def _captured(self, stream: InputStream, block: Block) -> None:
        if self._streams is None or stream is not self._streams.input:
            return
        missing = self.capture.observe(block.frame, block.at_ns, broken=block.broken)
        if not (self.capture.settled and self._playing.settled):
            return
        self.overflows += block.broken
        if self._intake is None:
            self._canceller = None if self._headset else EchoCanceller(self.capture, self._playing)
            self._intake = Intake(self.capture.sample_of(block.frame), stream.format.rate_hz, self._canceller)
            self._changed.set()
            missing = 0
        samples = np.concatenate([np.zeros(missing, np.float32), block.samples]) if missing else block.samples
        for packet in self._intake.push(samples):
            if self._packets is not None:
                self._packets.put_nowait(packet)

    def _played(self, stream: OutputStream, block: Block) -> None:
        if self._streams is None or stream is not self._streams.output:
            return
        was_settled = self._playing.settled
        self._playing.observe(block.frame, block.at_ns, broken=block.broken)
        if not was_settled:
            self._changed.set()
            return
        self.underruns += block.broken
        if self._canceller is not None and len(block.samples):
            self._canceller.played(block.start, block.samples)

    def _wake(self) -> None:
        """Whoever waits for sound is to look at the devices."""
        self._changed.set()
        if self._packets is not None:
            self._packets.put_nowait(None)
