"""What a real `Microphone` does on a sound card in software, one run a process: PortAudio's state is the process's.

`python -m tests.fakes.microphone_runs NAME` prints what the run of that name measured, as JSON.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent import models
from agent.audio import sound_devices
from agent.audio.microphone import DeviceGone, Microphone
from agent.audio.resample import resample
from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet
from agent.listening.vad import SileroVad
from agent.scenario import load_scenario
from profiling.trace.clock import SystemClock, seconds
from tests.fakes.pulse import PulseServer

VOICE_HZ = 22_050
CLOCK = SystemClock()
SPEECH = load_scenario("go-forward").utterances[0].recording
OTHER_SPEECH = load_scenario("do-something").utterances[0].recording


def likeness(heard: NDArray[np.float32], said: NDArray[np.float32], rate_hz: int) -> float:
    """How well what was said is found again: of its stretches of 0.3 s that are not silent, the median of the best
    correlation with a stretch of what was heard. A block that came late on a busy machine spoils one of them."""
    count = round(0.3 * rate_hz)
    stretches = [said[at : at + count] for at in range(0, len(said) - count, count)]
    return float(np.median([correlation(heard, one) for one in stretches if np.sqrt(np.mean(one**2)) > 0.01]))


def correlation(heard: NDArray[np.float32], said: NDArray[np.float32]) -> float:
    size = 1 << (len(heard) + len(said)).bit_length()
    spectrum = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size))
    at = int(np.argmax(np.fft.irfft(spectrum, size)[: len(heard) - len(said)]))
    there = heard[at : at + len(said)].astype(np.float64)
    return float(np.dot(there, said) / (np.linalg.norm(there) * np.linalg.norm(said) + 1e-9))


async def hear(packets: AsyncIterator[Packet], until: Callable[[Packet], bool]) -> list[Packet]:
    kept: list[Packet] = []
    async with aclosing(packets) as stream:
        async for packet in stream:
            kept.append(packet)
            if until(packet):
                break
    return kept


def lasting(mic: Microphone, length_s: float) -> Callable[[Packet], bool]:
    end_ns = CLOCK.now_ns() + round(length_s * 1e9)
    return lambda packet: mic.capture.ns_of(packet.end_sample) > end_ns


def joined(packets: list[Packet]) -> NDArray[np.float32]:
    assert all(a.end_sample == b.start_sample for a, b in pairwise(packets))
    return np.concatenate([packet.samples for packet in packets])


async def clicks(server: PulseServer) -> dict[str, object]:
    """Clicks that the track plays straight into the microphone: where each clock says they are, and how late packets
    come."""
    async with Microphone(CLOCK, VOICE_HZ, "usb_mic", "into_mic", headset=True) as mic:
        first_ns = CLOCK.now_ns() + 500_000_000
        click = np.full(40, 0.8, np.float32)
        laid = [mic.track.clock.sample_at(first_ns + number * 400_000_000) for number in range(6)]
        for sample in laid:
            mic.track.lay(sample, click)
        late_s: list[float] = []

        def until(packet: Packet) -> bool:
            late_s.append(seconds(CLOCK.now_ns() - mic.capture.ns_of(packet.end_sample)))
            return len(late_s) >= 160

        packets = await hear(mic.packets(), until)
        loud = np.flatnonzero(np.abs(joined(packets)) > 0.25) + packets[0].start_sample
        starts = [int(loud[0]), *(int(b) for a, b in pairwise(loud) if b - a > 1_600)]
        left_ns = [mic.track.clock.ns_of(sample) for sample in laid]
        heard_ns = [mic.capture.ns_of(sample) for sample in starts]
        off_s = [seconds(min((at - left for left in left_ns), key=abs)) for at in heard_ns]
        return {"off_s": off_s, "late_s": [min(late_s), max(late_s)], "broken": mic.overflows + mic.underruns}


async def both_ways(server: PulseServer) -> dict[str, object]:
    """Speech played into the microphone, and speech that the track plays, recorded at the loudspeaker."""
    with tempfile.NamedTemporaryFile() as recording:
        return await _both_ways(server, Path(recording.name))


async def _both_ways(server: PulseServer, recording: Path) -> dict[str, object]:
    async with Microphone(CLOCK, VOICE_HZ, headset=True) as mic:
        recorder = server.record(recording, VOICE_HZ)
        await asyncio.sleep(0.5)
        said = resample(OTHER_SPEECH.samples, CAPTURE_RATE_HZ, VOICE_HZ)
        mic.track.lay(mic.track.next_sample(CLOCK.now_ns()), said)
        server.play(SPEECH.path)
        packets = await hear(mic.packets(), lasting(mic, max(SPEECH.duration_s, OTHER_SPEECH.duration_s) + 1.0))
        recorder.terminate()
        recorder.wait()
        heard = np.fromfile(recording, "<f4")
        devices = [device.name for device in mic.devices or ()]
        return {
            "devices": devices,
            "microphone": likeness(joined(packets), SPEECH.samples, CAPTURE_RATE_HZ),
            "loudspeaker": likeness(heard, said, VOICE_HZ),
        }


async def unplugged(server: PulseServer) -> dict[str, object]:
    """The server is killed while sound runs, and comes again."""
    async with Microphone(CLOCK, VOICE_HZ, "usb_mic", "laptop_speaker") as mic:
        before = await hear(mic.packets(), lasting(mic, 0.3))
        asyncio.get_running_loop().call_later(0.3, server.kill)
        killed_ns, said = CLOCK.now_ns() + 300_000_000, ""
        try:
            await hear(mic.packets(), lambda _: False)
        except DeviceGone as gone:
            said = str(gone)
        gone_s = seconds(CLOCK.now_ns() - killed_ns)
        asyncio.get_running_loop().call_later(1.3, server.start)
        began_ns = CLOCK.now_ns()
        await asyncio.wait_for(mic.wait_for_device(), 15)
        back_s = seconds(CLOCK.now_ns() - began_ns)
        after = await hear(mic.packets(), lasting(mic, 0.3))
        ahead_s = (after[0].start_sample - before[0].start_sample) / CAPTURE_RATE_HZ
        apart_s = seconds(mic.capture.ns_of(after[0].start_sample) - mic.capture.ns_of(before[0].start_sample))
        return {"gone_s": gone_s, "said": said, "back_s": back_s, "numbers_keep_to_time_s": ahead_s - apart_s}


async def suspended(server: PulseServer) -> dict[str, object]:
    """The loudspeaker stops calling, without a word."""
    async with Microphone(CLOCK, VOICE_HZ, "usb_mic", "laptop_speaker") as mic:
        await hear(mic.packets(), lasting(mic, 0.2))
        server.control("suspend-sink", "speaker", "1")
        began_ns, said = CLOCK.now_ns(), ""
        try:
            await hear(mic.packets(), lasting(mic, 5))
        except DeviceGone as gone:
            said = str(gone)
        return {"gone_s": seconds(CLOCK.now_ns() - began_ns), "said": said}


async def echo(server: PulseServer) -> dict[str, object]:
    """The share of the loudspeaker's speech that is heard as speech, with echo cancellation and without."""
    server.loop_back()
    vad = SileroVad(models.locate("silero-vad") / "silero_vad.onnx")
    said = resample(SPEECH.samples, CAPTURE_RATE_HZ, VOICE_HZ)
    shares: dict[str, object] = {}
    for headset in (False, True):
        async with Microphone(CLOCK, VOICE_HZ, "usb_mic", "laptop_speaker", headset=headset) as mic:
            mic.track.lay(mic.track.next_sample(CLOCK.now_ns()), said)
            packets = await hear(mic.packets(), lasting(mic, len(said) / VOICE_HZ))
            frames = vad.open().push(joined(packets))
            share = float(np.mean([frame.probability > 0.5 for frame in frames]))
            shares["headset" if headset else "cancelled"] = share
    return shares


async def listed(server: PulseServer) -> dict[str, object]:
    """The devices, before the server has gone and after."""
    before = [device.name for device in sound_devices.table()]
    server.kill()
    sound_devices.refresh()
    return {"before": before, "after": [device.name for device in sound_devices.table()]}


RUNS: dict[str, Callable[[PulseServer], Awaitable[dict[str, object]]]] = {
    run.__name__: run for run in (clicks, both_ways, unplugged, suspended, echo, listed)
}

if __name__ == "__main__":
    with PulseServer() as card:
        os.environ.update(card.environment)
        print(json.dumps(asyncio.run(RUNS[sys.argv[1]](card))))  # type: ignore[arg-type]
