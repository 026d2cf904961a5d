import numpy as np
import pytest

from agent.audio.resample import Resampler, resample

RATES_HZ = (8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000)


def tone(hz: float, rate_hz: int, seconds: float = 1.0, amplitude: float = 0.5):
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def stream(resampler: Resampler, samples, block: int):
    pieces = [resampler.push(samples[start : start + block]) for start in range(0, len(samples), block)]
    return np.concatenate([*pieces, resampler.flush()])


@pytest.mark.parametrize("from_hz", RATES_HZ)
@pytest.mark.parametrize("to_hz", (16_000, 22_050, 48_000))
def test_a_tone_keeps_its_place_in_time(from_hz, to_hz):
    converted = resample(tone(700, from_hz), from_hz, to_hz)
    assert converted.dtype == np.float32
    assert abs(len(converted) - to_hz) <= 1
    middle = slice(to_hz // 10, -to_hz // 10)
    expected = tone(700, to_hz)
    assert np.max(np.abs(converted[: len(expected)][middle] - expected[: len(converted)][middle])) < 2e-3


def test_what_the_lower_rate_cannot_carry_is_removed():
    assert np.max(np.abs(resample(tone(11_000, 48_000), 48_000, 16_000)[1000:-1000])) < 1e-4


@pytest.mark.parametrize("block", (1, 160, 441, 4096))
@pytest.mark.parametrize("rates", ((48_000, 16_000), (22_050, 48_000), (16_000, 16_000)))
def test_blocks_joined_equal_the_whole(block, rates):
    samples = np.random.default_rng(3).uniform(-0.5, 0.5, rates[0] // 4).astype(np.float32)
    joined = stream(Resampler(*rates), samples, block)
    whole = resample(samples, *rates)
    assert abs(len(joined) - len(whole)) <= 1
    shorter = min(len(joined), len(whole))
    assert np.max(np.abs(joined[:shorter] - whole[:shorter])) < 1e-5


@pytest.mark.parametrize("from_hz", (16_000, 22_050, 48_000))
@pytest.mark.parametrize("to_hz", (16_000, 22_050, 48_000))
@pytest.mark.parametrize(("quality", "most_s"), (("HQ", 0.058), ("LQ", 0.0225)))
def test_no_more_is_held_back_than_documented(from_hz, to_hz, quality, most_s):
    resampler = Resampler(from_hz, to_hz, quality)
    taken_s = given = 0.0
    for _ in range(200):
        taken_s += (from_hz // 100) / from_hz
        given += len(resampler.push(np.zeros(from_hz // 100, np.float32)))
        assert resampler.held_back_s <= most_s
        assert resampler.held_back_s == pytest.approx(taken_s - given / to_hz, abs=1e-6)


def test_a_flushed_resampler_starts_afresh():
    resampler = Resampler(48_000, 16_000)
    first = stream(resampler, tone(300, 48_000, 0.2), 480)
    assert np.array_equal(stream(resampler, tone(300, 48_000, 0.2), 480), first)


def test_an_empty_block_gives_nothing_and_a_flush_of_nothing_too():
    resampler = Resampler(48_000, 16_000)
    assert len(resampler.push(np.zeros(0, np.float32))) == 0
    assert len(resampler.flush()) == 0
