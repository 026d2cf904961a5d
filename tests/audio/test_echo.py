"""Echo cancellation of real speech in a made-up room, with two devices that keep their own time."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.audio.echo import EchoCanceller
from agent.audio.resample import resample
from agent.audio.sample_clock import Packet, SampleClock, SampleTimes
from agent.scenario import load_scenario

Samples = NDArray[np.float32]
RATE = 16_000
NS = 1_000_000_000
PACKET = 320
AHEAD_S = 0.06  # the loudspeaker reads so much before it leaves
CAPTURE = SampleClock(5 * NS, RATE)
LOUDSPEAKER = SampleClock(4 * NS + 321_000_000, 22_050)


def speech(name: str, index: int = 0, dbfs: float = -22.0) -> Samples:
    samples = load_scenario(name).utterances[index].recording.samples
    loud = samples[np.abs(samples) > 0.01]
    return (samples * 10 ** (dbfs / 20) / np.sqrt(np.mean(loud**2))).astype(np.float32)


def far_sound(length_s: float) -> Samples:
    one = np.concatenate([speech("capital-cities", 3), speech("sense-and-sensibility", 0)])
    return np.tile(one, 1 + int(length_s * RATE / len(one)))[: round(length_s * RATE)]


def room(delay_s: float) -> Samples:
    """An impulse response that begins after the delay and rings for a quarter of a second, 6 dB down."""
    rng = np.random.default_rng(3)
    length = RATE // 4
    rings = 0.35 * rng.standard_normal(length) * 10 ** (-3 * np.arange(length) / length)
    rings[0] = 1.0
    rings *= 0.5 / np.sqrt(np.sum(rings**2))
    return np.concatenate([np.zeros(round(delay_s * RATE)), rings]).astype(np.float32)


def echoes(far: Samples, leaves_ns: int, delay_s: float, length: int) -> Samples:
    """What of the far sound, which begins to leave at `leaves_ns`, the microphone captures from its sample 0 on."""
    response, size = room(delay_s), 1 << (2 * max(len(far), length)).bit_length()
    there = np.fft.irfft(np.fft.rfft(far, size) * np.fft.rfft(response, size), size)[: len(far) + len(response)]
    first = CAPTURE.sample_at(leaves_ns)
    return np.concatenate([np.zeros(max(0, first)), there[max(0, -first) :], np.zeros(length)])[:length].astype(
        np.float32
    )


@dataclass
class Talk:
    """A microphone's sound, and what the loudspeaker plays, from its sample 0 on."""

    near: Samples
    far: Samples
    loudspeaker: SampleTimes = LOUDSPEAKER

    def cleaned(self) -> Samples:
        """As long as `near`, sample by sample at the same time."""
        canceller = EchoCanceller(CAPTURE, self.loudspeaker)
        voice = resample(self.far, RATE, self.loudspeaker.rate_hz)
        out = np.zeros(len(self.near), np.float32)
        played, expected = 0, None
        for start in range(0, len(self.near) - PACKET + 1, PACKET):
            leaves = self.loudspeaker.sample_at(CAPTURE.ns_of(start + PACKET) + round(AHEAD_S * NS))
            if played < min(leaves, len(voice)):
                canceller.played(played, voice[played:leaves])
                played = min(leaves, len(voice))
            packet = canceller.clean(Packet(start, self.near[start : start + PACKET]))
            assert expected is None or packet.start_sample == expected
            expected = packet.end_sample
            first = max(0, packet.start_sample)
            out[first : packet.end_sample] = packet.samples[first - packet.start_sample :]
        return out


def level_db(samples: Samples) -> float:
    return 10 * float(np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-12))


def erle_db(talk: Talk, start_s: float, end_s: float) -> float:
    """Echo return loss enhancement over a stretch of time."""
    part = slice(round(start_s * RATE), round(end_s * RATE))
    return level_db(talk.near[part]) - level_db(talk.cleaned()[part])


def noise(length: int) -> Samples:
    return (10 ** (-65 / 20) * np.random.default_rng(1).standard_normal(length)).astype(np.float32)


@pytest.mark.parametrize("delay_s", [0.002, 0.08, 0.2])
def test_an_echo_is_20_db_down_after_two_seconds(delay_s: float) -> None:
    far = far_sound(8)
    near = echoes(far, LOUDSPEAKER.ns_of(0), delay_s, 6 * RATE)
    assert erle_db(Talk(near + noise(len(near)), far), 2, 6) > 20


def test_near_speech_alone_keeps_its_level_and_its_time() -> None:
    said = np.concatenate([np.zeros(RATE // 2, np.float32), speech("go-forward"), np.zeros(RATE // 2, np.float32)])
    cleaned = Talk(said, np.zeros(0, np.float32)).cleaned()
    assert abs(level_db(cleaned) - level_db(said)) < 1.0
    size = 1 << (2 * len(said)).bit_length()
    match = np.fft.irfft(np.fft.rfft(cleaned, size) * np.conj(np.fft.rfft(said, size)), size)
    lag = int(np.argmax(match))
    assert min(lag, size - lag) <= 2


def test_near_speech_is_still_there_while_the_agent_talks() -> None:
    far, said = far_sound(9), speech("go-forward", dbfs=-18)
    echo = echoes(far, LOUDSPEAKER.ns_of(0), 0.05, 7 * RATE) * np.float32(0.2)
    near = echo.copy()
    near[3 * RATE : 3 * RATE + len(said)] += said
    part = slice(3 * RATE, 3 * RATE + len(said))
    both, alone = Talk(near, far).cleaned(), Talk(echo, far).cleaned()
    assert level_db(both[part]) > level_db(said) - 6
    assert level_db(both[part]) > level_db(alone[part]) + 15


def test_a_jump_of_the_room_is_learnt_anew() -> None:
    far = far_sound(11)
    before = echoes(far, LOUDSPEAKER.ns_of(0), 0.04, 9 * RATE)
    after = echoes(far, LOUDSPEAKER.ns_of(0), 0.10, 9 * RATE)
    near = np.where(np.arange(9 * RATE) < 4 * RATE, before, after) + noise(9 * RATE)
    assert erle_db(Talk(near, far), 7, 9) > 20


class Jumping:
    """A loudspeaker whose device plays `gap_s` of silence of its own in front of sample `at`."""

    def __init__(self, at: int, gap_s: float):
        self.rate_hz = LOUDSPEAKER.rate_hz
        self._at, self._gap_ns = at, round(gap_s * NS)

    def ns_of(self, sample: int) -> int:
        return LOUDSPEAKER.ns_of(sample) + (self._gap_ns if sample >= self._at else 0)

    def sample_at(self, ns: int) -> int:
        return min(LOUDSPEAKER.sample_at(ns), max(self._at, LOUDSPEAKER.sample_at(ns - self._gap_ns)))


def test_an_underrun_that_the_loudspeakers_clock_knows_of_costs_nothing() -> None:
    far, jump_s, gap_s = far_sound(11), 5.0, 0.15
    times = Jumping(round(jump_s * LOUDSPEAKER.rate_hz), gap_s)
    first, rest = far[: round(jump_s * RATE)], far[round(jump_s * RATE) :]
    whole = np.concatenate([first, np.zeros(round(gap_s * RATE), np.float32), rest])
    near = echoes(whole, LOUDSPEAKER.ns_of(0), 0.05, 8 * RATE)
    talk = Talk(near + noise(len(near)), far, times)
    jumped_s = jump_s + (LOUDSPEAKER.origin_ns - CAPTURE.origin_ns) / NS
    assert erle_db(talk, jumped_s + 0.3, jumped_s + 2) > 20


@pytest.mark.parametrize("ppm", [-150, 200])
def test_two_crystals_may_drift_apart(ppm: float) -> None:
    far = far_sound(14)
    times = SampleClock(LOUDSPEAKER.origin_ns, LOUDSPEAKER.rate_hz)
    stretched = np.interp(np.arange(12 * RATE) * (1 + ppm * 1e-6), np.arange(len(far)), far).astype(np.float32)
    near = echoes(stretched, times.ns_of(0), 0.05, 11 * RATE)

    class Drifting:
        rate_hz = LOUDSPEAKER.rate_hz

        def ns_of(self, sample: int) -> int:
            return times.origin_ns + round(sample * NS / self.rate_hz / (1 + ppm * 1e-6))

        def sample_at(self, ns: int) -> int:
            return int(np.ceil((ns - times.origin_ns) * self.rate_hz * (1 + ppm * 1e-6) / NS))

    assert erle_db(Talk(near + noise(len(near)), far, Drifting()), 7, 11) > 20


@pytest.mark.parametrize("where", ["near", "far"])
def test_what_is_no_number_spoils_nothing(where: str) -> None:
    far = far_sound(8)
    near = echoes(far, LOUDSPEAKER.ns_of(0), 0.05, 6 * RATE) + noise(6 * RATE)
    spoilt = near if where == "near" else far
    spoilt[RATE : RATE + 10] = [np.nan, np.inf, -np.inf] * 3 + [1e30]
    cleaned = Talk(near, far).cleaned()
    assert np.isfinite(cleaned).all()
    assert level_db(cleaned[3 * RATE :]) < level_db(near[3 * RATE :]) - 20


def test_packets_of_any_length_are_numbered_alike() -> None:
    said = speech("go-forward")[:RATE]
    whole = EchoCanceller(CAPTURE, LOUDSPEAKER).clean(Packet(1_000, said))
    canceller, pieces = EchoCanceller(CAPTURE, LOUDSPEAKER), []
    for start in range(0, len(said), 77):
        piece = said[start : start + 77]
        pieces.append(canceller.clean(Packet(1_000 + start, piece)))
    assert pieces[0].start_sample == whole.start_sample == 1_000 - 128
    assert all(a.end_sample == b.start_sample for a, b in pairwise(pieces))
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in pieces]), whole.samples)
