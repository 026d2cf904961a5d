"""The edge of a caller over WebRTC: sound is where its time says, in and out."""

import asyncio
import random
import time
from itertools import pairwise

import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import RtpPacket

from agent.audio.frame_clock import FRAME_NS, FrameClock
from agent.audio.output_track import OutputTrack
from agent.audio.webrtc import FrameSender, WebRtcEdge, mono, pass_through
from agent.audio.webrtc_in import AHEAD, RATIO, Placer
from agent.errors import TurnscopeError
from tests.fakes.virtual_time import VirtualClock, run_virtually
from tests.web.pages import Microphone, run
from tests.web.tones import BusyClock, recognise, speech

FRAME = 960
RATE = 20_000


def quiet(level: float = 0.0) -> np.ndarray:
    return np.full(FRAME, level, np.float32)


def joined(packets: list) -> np.ndarray:
    """The packets' sound, which has no gaps."""
    known = [packet for packet in packets if packet is not None]
    for one, next_one in pairwise(known):
        assert one.end_sample == next_one.start_sample
    return np.concatenate([packet.samples for packet in known])


def test_a_frame_that_is_missing_becomes_silence_of_its_length() -> None:
    placer = Placer(0)
    sent = [number for number in range(60) if number not in (20, 21, 40)]
    out = joined([placer.frame(n * FRAME, quiet(0.5), (n + 1) * FRAME) for n in sent])
    for missing, length in ((20, 2), (40, 1)):
        hole = out[missing * 320 + 40 : (missing + length) * 320 - 40]
        assert np.abs(hole).max() < 0.05
    assert np.abs(out[25 * 320 : 39 * 320] - 0.5).max() < 0.01


def test_a_stall_becomes_silence_and_what_comes_late_is_left_out() -> None:
    placer = Placer(0)
    packets = [placer.frame(n * FRAME, quiet(0.5), (n + 1) * FRAME) for n in range(10)]
    packets.append(placer.silence(20 * FRAME))
    packets += [placer.frame(n * FRAME, quiet(0.5), 25 * FRAME) for n in range(10, 25)]
    packets += [placer.frame(n * FRAME, quiet(0.5), (n + 1) * FRAME) for n in range(25, 40)]
    out = joined(packets)
    assert np.abs(out[11 * 320 : 19 * 320]).max() < 0.05
    assert np.abs(out[21 * 320 : 36 * 320] - 0.5).max() < 0.01


def test_the_frame_that_took_least_to_come_tells_when_it_was_captured() -> None:
    """The first frames come 100 ms late, together; no sound is put into the time to come for long."""
    placer, sound = Placer(0), []
    for n in range(40):
        arrived = max((n + 1) * FRAME, 6 * FRAME)
        sound.append(placer.frame(n * FRAME, quiet(0.5 if n == 30 else 0), arrived))
    out = joined(sound)
    assert int(np.argmax(np.abs(out) > 0.25)) == pytest.approx(30 * 320, abs=100)


def test_words_lose_nothing_while_a_line_is_put_right() -> None:
    placer, packets = Placer(0), []
    said = np.repeat(speech("ten", 48_000), 1)
    for n in range(30):
        frame = said[n * FRAME : (n + 1) * FRAME] if n < 10 else quiet()
        packets.append(placer.frame(n * FRAME, frame, max((n + 1) * FRAME, 5 * FRAME)))
    assert recognise(joined(packets)) == "ten"


def test_a_drifting_clock_is_followed() -> None:
    """1000 ppm for 100 s: at the end a frame is where it was captured, within a hundredth."""
    placer, packets = Placer(0), []
    last = 5000
    for n in range(last + 20):
        packets.append(placer.frame(n * FRAME, quiet(0.5 if n == last else 0), round((n + 1) * FRAME * 1.001)))
    out = joined(packets)
    assert int(np.argmax(np.abs(out) > 0.25)) == pytest.approx(round(last * 320 * 1.001), abs=220)


def test_wild_time_stamps_take_no_memory() -> None:
    placer, chance = Placer(0), random.Random(3)
    samples = 0
    for n in range(500):
        packet = placer.frame(chance.randrange(-(2**40), 2**40), quiet(0.5), (n + 1) * FRAME)
        samples += len(packet.samples) if packet else 0
    assert samples <= (500 * FRAME + AHEAD) // RATIO


def test_samples_leave_with_their_frame() -> None:
    clock = FrameClock(1_000, RATE)
    assert [clock.ns_of(sample) for sample in (0, 399, 400)] == [1_000, 1_000, 1_000 + FRAME_NS]
    assert clock.sample_at(1_000) == 0
    assert clock.sample_at(1_001) == 400
    for ns in (-(10**9), 0, 5 * FRAME_NS, 10**10):
        assert clock.ns_of(clock.sample_at(ns)) >= ns > clock.ns_of(clock.sample_at(ns) - 1)


def test_after_a_stall_nothing_is_lost_and_what_had_left_keeps_its_time() -> None:
    clock = FrameClock(0, RATE)
    before = [clock.ns_of(sample) for sample in range(0, 4000, 100)]
    clock.stalled(10, 3)
    clock.stalled(20, 1)
    assert [clock.ns_of(sample) for sample in range(0, 4000, 100)] == before
    assert clock.leaves_ns(10) == 13 * FRAME_NS
    assert clock.leaves_ns(20) == 24 * FRAME_NS
    times = [clock.ns_of(sample) for sample in range(0, 12_000, 50)]
    assert times == sorted(times)
    for ns in range(0, 40 * FRAME_NS, FRAME_NS // 3):
        assert clock.ns_of(clock.sample_at(ns)) >= ns > clock.ns_of(clock.sample_at(ns) - 1)


def test_a_sender_that_stalls_goes_on_without_a_burst() -> None:
    clock = VirtualClock()

    async def main() -> None:
        frames = FrameClock(clock.now_ns(), RATE)
        track = OutputTrack(frames)
        sender = FrameSender(clock, track, frames)
        sender.begin()
        start = track.next_sample(clock.now_ns())
        track.lay(start, speech("ten red green", RATE))
        sent = []
        for number in range(50):
            if number == 10:
                await asyncio.sleep(0.11)
            frame = await sender.next()
            sent.append((clock.now_ns(), frame.pts, mono(frame)))
        times = np.diff([at_ns for at_ns, _, _ in sent])
        stamps = np.diff([stamp for _, stamp, _ in sent])
        assert stamps[9] == 5 * FRAME
        assert set(np.delete(stamps, 9)) == {FRAME}
        assert times[9] == pytest.approx(0.11e9, abs=1e6)
        assert times[10] >= 0.009e9
        assert set(np.round(times[11:] / 1e6)) == {20}
        assert recognise(np.concatenate([samples for _, _, samples in sent]), 48_000) == "ten red green"
        audible_ns = next(at_ns for at_ns, _, samples in sent if np.abs(samples).max() > 0.1)
        assert frames.ns_of(start) == pytest.approx(audible_ns, abs=1e6)

    run_virtually(clock, main())


def test_received_sound_waits_for_nothing_and_survives_loss() -> None:
    """The guard of aiortc's private parts: were the jitter buffer its own, frames would come 80 ms late, and 350 after
    a loss."""

    async def main() -> None:
        one, other = (RTCPeerConnection(RTCConfiguration(iceServers=[])) for _ in range(2))
        microphone = Microphone()
        one.addTrack(microphone)
        tracks = []
        other.on("track", tracks.append)
        await one.setLocalDescription(await one.createOffer())
        await other.setRemoteDescription(RTCSessionDescription(one.localDescription.sdp, one.localDescription.type))
        await other.setLocalDescription(await other.createAnswer())
        for receiver in other.getReceivers():
            pass_through(receiver)
        await one.setRemoteDescription(RTCSessionDescription(other.localDescription.sdp, other.localDescription.type))
        transport, chance = one.getSenders()[0].transport, random.Random(1)
        sent, passed = {}, 0
        send = transport._send_rtp

        async def lossy(data: bytes) -> None:
            nonlocal passed
            if 96 <= data[1] & 0x7F < 128:
                stamp = RtpPacket.parse(data).timestamp
                sent[stamp] = time.monotonic()
                if chance.random() < 0.1:
                    return
                passed += 1
            await send(data)

        transport._send_rtp = lossy
        got = []
        async with asyncio.timeout(5):
            for _ in range(100):
                frame = await tracks[0].recv()
                got.append((frame.pts, time.monotonic()))
        first = min(sent)
        delays = [at_s - sent[stamp] for pts, at_s in got[5:] if (stamp := (first + pts) & 0xFFFFFFFF) in sent]
        assert len(delays) > 80
        assert float(np.median(delays)) < 0.02
        assert passed - len(got) <= 2
        await one.close()
        await other.close()

    run(main())


def test_another_aiortc_is_told_apart() -> None:
    class Receiver: ...

    with pytest.raises(TurnscopeError, match=r"aiortc 1\.16"):
        pass_through(Receiver())  # type: ignore[arg-type]


def test_packets_go_on_without_sound_and_end_when_hung_up() -> None:
    async def main() -> None:
        edge = WebRtcEdge(BusyClock(), RATE)
        packets = []

        async def gather() -> None:
            async for packet in edge.packets():
                packets.append(packet)

        task = asyncio.create_task(gather())
        await asyncio.sleep(0.7)
        edge.hang_up()
        async with asyncio.timeout(1):
            await task
        assert len(joined(packets)) > 0.2 * 16_000

    run(main())
