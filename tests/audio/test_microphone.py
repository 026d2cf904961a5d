"""The microphone edge on a made-up sound card that runs in real time: formats, devices that go, come and refuse."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import pairwise

import numpy as np
import pytest

from agent.audio.microphone import DeviceGone, Microphone
from agent.audio.sample_clock import Packet
from agent.errors import TurnscopeError
from profiling.trace.clock import SystemClock
from tests.fakes.sound_card import SoundCard, insert

CLOCK = SystemClock()
VOICE_HZ = 24_000


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SoundCard:
    card = SoundCard(("hw mic", 6, 0, (44_100,)), ("hw speaker", 0, 4, (44_100,)))
    insert(monkeypatch, card)
    return card


async def hear(packets: AsyncIterator[Packet], count: int, then: Callable[[], None] = lambda: None) -> list[Packet]:
    heard: list[Packet] = []
    async with aclosing(packets) as stream:
        async for packet in stream:
            heard.append(packet)
            if len(heard) == count:
                break
            if len(heard) == 3:
                then()
    return heard


def test_any_rate_and_number_of_channels_becomes_16_khz_mono(card: SoundCard) -> None:
    def hum(frame: int, frames: int) -> np.ndarray:
        tone = 0.6 * np.sin(2 * np.pi * 400 * np.arange(frame, frame + frames) / 44_100)
        return tone[:, None] * np.array([2, 1, 0, 0, 0, 0]) / 2

    card.microphone = hum

    async def talk() -> None:
        async with Microphone(CLOCK, VOICE_HZ, headset=True) as mic:
            packets = await hear(mic.packets(), 20)
            assert all(before.end_sample == after.start_sample for before, after in pairwise(packets))
            assert {len(packet.samples) for packet in packets} == {320}
            samples = np.concatenate([packet.samples for packet in packets])
            assert samples.dtype == np.float32
            spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
            assert np.argmax(spectrum) * 16_000 / len(samples) == pytest.approx(400, abs=2)
            assert np.max(np.abs(samples)) == pytest.approx(0.6 * 3 / 12, rel=0.05)
            assert abs(mic.capture.ns_of(packets[-1].end_sample) - CLOCK.now_ns()) < 500_000_000

    asyncio.run(talk())


def test_the_track_is_played_on_every_channel(card: SoundCard) -> None:
    async def talk() -> None:
        async with Microphone(CLOCK, VOICE_HZ, headset=True) as mic:
            begin = mic.track.next_sample(CLOCK.now_ns()) + 2_400
            mic.track.lay(begin, np.full(4_800, 0.5, np.float32))
            await hear(mic.packets(), 30)

    asyncio.run(talk())
    heard = np.concatenate(card.heard)
    assert heard.shape[1] == 4 and (heard == heard[:, :1]).all()
    assert np.sum(heard[:, 0] > 0.25) == pytest.approx(0.2 * 44_100, abs=100)


def test_sound_that_the_microphone_lost_is_silence_and_numbers_keep_to_time(card: SoundCard) -> None:
    def ticks(frame: int, frames: int) -> np.ndarray:
        return np.where(np.arange(frame, frame + frames) % 4_410 < 20, 0.9, 0.0)[:, None]  # every 0.1 s

    card.microphone = ticks

    async def talk() -> None:
        async with Microphone(CLOCK, VOICE_HZ, headset=True) as mic:
            inward = card.streams[-1]

            loop = asyncio.get_running_loop()
            loop.call_later(0.35, setattr, inward, "stalled", True)
            loop.call_later(0.70, setattr, inward, "stalled", False)
            packets = await hear(mic.packets(), 90)
            assert all(before.end_sample == after.start_sample for before, after in pairwise(packets))
            samples = np.concatenate([packet.samples for packet in packets])
            loud = np.flatnonzero(np.abs(samples) > 0.2)
            starts = loud[np.diff(loud, prepend=-1_000) > 400]
            assert np.max(np.diff(starts)) > 3_200  # something was lost
            certain = starts[starts > starts[0] + 16_000]  # the loss is known by then: ticks fall where they should
            assert len(certain) >= 3
            assert max(abs((start - starts[0] + 800) % 1_600 - 800) for start in certain) < 32

    asyncio.run(talk())


@pytest.mark.parametrize("slow", ["input", "output"])
def test_devices_may_wake_up_one_after_the_other(card: SoundCard, slow: str) -> None:
    card.wakes_after_s[slow] = 0.4
    failures: list[object] = []

    async def talk() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
        async with Microphone(CLOCK, VOICE_HZ) as mic:
            packets = await hear(mic.packets(), 10)
            assert all(before.end_sample == after.start_sample for before, after in pairwise(packets))

    asyncio.run(talk())
    assert not failures


def test_a_device_that_ends_is_gone_and_one_that_comes_later_is_found(card: SoundCard) -> None:
    async def talk() -> None:
        async with Microphone(CLOCK, VOICE_HZ, microphone="mic") as mic:
            first = await hear(mic.packets(), 3)
            with pytest.raises(DeviceGone, match="'hw mic': plug the device in again"):
                await hear(mic.packets(), 1_000, then=card.streams[-1].unplugged.set)
            with pytest.raises(DeviceGone):  # it stays so
                await hear(mic.packets(), 1)
            gone = card.plugged_in.pop(0)
            waiting = asyncio.create_task(mic.wait_for_device())
            await asyncio.sleep(0.3)
            assert not waiting.done() and mic.devices is None
            card.plugged_in.append(gone)
            await asyncio.wait_for(waiting, 10)
            assert [device.number for device in mic.devices or ()] == [1, 0]
            again = await hear(mic.packets(), 3)
            passed = (again[0].start_sample - first[0].start_sample) / 16_000
            passed_ns = mic.capture.ns_of(again[0].start_sample) - mic.capture.ns_of(first[0].start_sample)
            assert passed == pytest.approx(passed_ns / 1e9, abs=0.01) and passed > 1.0

    asyncio.run(talk())


@pytest.mark.parametrize("stream", [0, 1])
def test_a_device_that_falls_silent_is_gone_after_a_second(card: SoundCard, stream: int) -> None:
    async def talk() -> None:
        async with Microphone(CLOCK, VOICE_HZ) as mic:
            began_ns = CLOCK.now_ns()
            with pytest.raises(DeviceGone):
                await hear(mic.packets(), 1_000, then=lambda: setattr(card.streams[stream], "stalled", True))
            assert CLOCK.now_ns() - began_ns > 900_000_000

    asyncio.run(talk())


def test_closing_ends_the_packets_without_an_error(card: SoundCard) -> None:
    async def talk() -> None:
        mic = Microphone(CLOCK, VOICE_HZ)
        await mic.open()
        reading = asyncio.create_task(hear(mic.packets(), 10_000))
        await asyncio.sleep(0.1)
        await mic.close()
        assert len(await asyncio.wait_for(reading, 2)) < 100

    asyncio.run(talk())
    assert not any(stream.running for stream in card.streams)
    assert not [thread for thread in threading.enumerate() if thread.name == "sound devices"]


def test_a_device_in_use_elsewhere_is_one_sentence_and_nothing_stays_open(card: SoundCard) -> None:
    card.busy = True

    async def talk() -> None:
        with pytest.raises(TurnscopeError, match=r"'hw speaker' cannot be opened \(Device unavailable\)"):
            await Microphone(CLOCK, VOICE_HZ).open()

    asyncio.run(talk())
    assert not [thread for thread in threading.enumerate() if thread.name == "sound devices"]


def test_no_device_is_one_sentence(card: SoundCard) -> None:
    card._devices.clear()

    async def talk() -> None:
        with pytest.raises(TurnscopeError, match="No microphone was found"):
            await Microphone(CLOCK, VOICE_HZ).open()

    asyncio.run(talk())
