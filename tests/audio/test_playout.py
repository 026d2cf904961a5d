"""Playback on the sample clock, against a clock that the test moves."""

import asyncio

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.audio.output_track import OutputTrack
from agent.audio.playout import Playback
from agent.audio.sample_clock import SampleClock
from agent.audio.start_buffer import StartBuffer
from tests.fakes.virtual_time import VirtualClock, run_virtually

RATE = 20_000
ORIGIN_NS = 1_000_000_000


def tone(seconds: float, level: float = 0.5) -> NDArray[np.float32]:
    return np.full(round(seconds * RATE), level, np.float32)


def playback(clock: VirtualClock, needed_s: float = 0.0) -> tuple[Playback, OutputTrack]:
    buffer = StartBuffer()
    for _ in range(5):
        buffer.observe(needed_s / StartBuffer.MARGIN)
    track = OutputTrack(SampleClock(ORIGIN_NS, RATE))
    return Playback(clock, track, buffer), track


def test_sample_numbers_and_times_are_inverse() -> None:
    for rate in (16_000, 22_050, 48_000):
        clock = SampleClock(123_456_789, rate)
        for sample in (0, 1, 7, 22_049, 10**9 + 1):
            assert clock.sample_at(clock.ns_of(sample)) == sample
            assert clock.sample_at(clock.ns_of(sample) + 1) == sample + 1


def test_pieces_follow_each_other_without_gap_and_lateness_is_an_underrun() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    play.write(0, tone(0.2))
    clock.time_us += 100_000
    play.write(0, tone(0.2))  # in time
    clock.time_us += 350_000
    play.write(0, tone(0.2))  # 50 ms late
    assert play.underruns == 1 and play.underrun_s == pytest.approx(0.05)
    left = track.read(0, RATE)
    assert np.count_nonzero(left[: round(0.4 * RATE)]) == round(0.4 * RATE)
    assert not left[round(0.4 * RATE) : round(0.45 * RATE)].any()
    assert np.count_nonzero(left[round(0.45 * RATE) : round(0.65 * RATE)]) == round(0.2 * RATE)


def test_time_that_passes_while_the_start_is_laid_is_no_underrun() -> None:
    clock = VirtualClock()
    play, _ = playback(clock, needed_s=0.3)
    play.write(0, tone(0.2))

    class Slow(VirtualClock):
        def now_ns(self) -> int:
            clock.time_us += 60  # more than a sample
            return clock.now_ns()

    play._clock = Slow()
    play.write(0, tone(0.2))
    assert play.started_ns is not None and play.underruns == 0


def test_playing_waits_for_the_start_buffer_or_the_end_of_the_reply() -> None:
    clock = VirtualClock()
    play, _ = playback(clock, needed_s=0.3)
    play.write(0, tone(0.2))
    assert play.started_ns is None
    clock.time_us += 40_000
    play.write(0, tone(0.2))
    assert play.started_ns == clock.now_ns() and play.underruns == 0
    short, _ = playback(clock, needed_s=0.3)
    short.write(0, tone(0.1))
    short.finish()
    assert short.started_ns == clock.now_ns()


def test_first_audio_is_the_first_audible_10_ms_and_not_the_first_sample() -> None:
    clock = VirtualClock()
    play, _ = playback(clock)
    play.write(0, np.concatenate([tone(0.05, 1e-4), tone(0.1)]))
    assert play.started_ns is not None and play.first_audio_ns == play.started_ns + 50_000_000


def test_stop_cuts_at_the_sample_that_is_due_and_first_audio_counts_only_if_it_left() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    play.write(0, tone(1.0))
    clock.time_us += 250_000
    play.stop()
    play.write(0, tone(1.0))
    left = track.read(0, 3 * RATE)
    assert (left[: round(0.25 * RATE)] == 0.5).all() and not left[round(0.255 * RATE) :].any()
    assert (np.diff(left[round(0.25 * RATE) : round(0.255 * RATE)]) < 0).all()  # a fade of 5 ms
    assert play.heard(0) == pytest.approx(0.255) and play.first_audio_ns is not None
    unheard, _ = playback(clock)
    unheard.write(0, np.concatenate([tone(0.1, 0.0), tone(1.0)]))
    clock.time_us += 60_000
    unheard.stop()
    assert unheard.first_audio_ns is None


def test_heard_grows_with_time_and_played_waits_for_the_last_sample() -> None:
    clock = VirtualClock()
    play, _ = playback(clock)
    play.write(0, tone(0.4))
    play.write(1, tone(0.6))
    play.end_phrase(0)

    async def main() -> list[float | None]:
        seen: list[float | None] = [play.heard(1)]
        await asyncio.sleep(0.7)
        seen.append(play.heard(1))
        await play.played()
        return [*seen, play.heard(1), play.heard(2)]

    start_ns = clock.now_ns()
    assert run_virtually(clock, main()) == [0.0, pytest.approx(0.5), 1.0, None]
    assert clock.now_ns() - start_ns == pytest.approx(1_000_000_000, abs=1_000_000)
    assert play.is_complete(0) and not play.is_complete(1)


def test_the_track_reads_across_pieces_and_forgets_what_lies_behind() -> None:
    track = OutputTrack(SampleClock(0, RATE))
    track.lay(5, np.ones(5, np.float32))
    track.lay(12, np.full(4, 2, np.float32))
    assert track.read(0, 8).tolist() == [0] * 5 + [1] * 3
    assert track.read(8, 6).tolist() == [1, 1, 0, 0, 2, 2]
    track.cut(15)
    assert track.read(14, 4).tolist() == [2, 0, 0, 0]


def test_the_start_buffer_outlasts_the_slowest_usual_patch() -> None:
    buffer = StartBuffer()
    assert buffer.needed_s == StartBuffer.UNMEASURED_S
    for cost in [0.04] * 38 + [0.08] * 2:
        buffer.observe(cost)
    assert 0.04 * StartBuffer.MARGIN <= buffer.needed_s <= 0.08 * StartBuffer.MARGIN


def test_a_paused_reply_goes_on_where_it_stopped_and_every_sample_leaves_once() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    said = np.random.default_rng(1).uniform(0.2, 0.5, RATE).astype(np.float32)
    play.write(0, said[:12_345])
    clock.time_us += 250_000
    play.pause()
    play.write(0, said[12_345:])  # synthesis goes on
    clock.time_us += 400_000
    assert play.paused and play.heard(0) == pytest.approx(0.255 * RATE / 20_000)
    play.resume("no words")
    clock.time_us += 5_000_000
    left, fade = track.read(0, 3 * RATE), round(0.005 * RATE)
    gap = np.arange(5000 + fade, 5000 + 8000)
    assert not left[gap].any()
    heard = np.delete(left, gap)[:RATE]
    away = np.r_[0:5000, 5000 + 2 * fade : RATE]
    assert np.array_equal(heard[away], said[away])
    assert heard[5000] == pytest.approx(said[5000]) and heard[4999 + fade] == heard[5000 + fade] == 0.0
    assert (heard[5000 : 5000 + 2 * fade] <= said[5000 : 5000 + 2 * fade]).all()
    assert play.underruns == 0 and play.heard(0) == 1.0 and not left[RATE + 8000 - fade :].any()
    (pause,) = play.pauses
    assert (pause.start_ns, pause.end_ns, pause.why) == (ORIGIN_NS + 255_000_000, ORIGIN_NS + 650_000_000, "no words")
    assert play.paused_s == pytest.approx(0.395)


def test_a_reply_that_is_not_yet_audible_is_held_without_a_trace() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    play.write(0, np.concatenate([tone(0.1, 0.0), tone(0.4)]))
    clock.time_us += 60_000
    assert play.first_audio_ns is not None and not play.audible
    play.pause()
    assert play.first_audio_ns is None and play.started_ns is not None
    clock.time_us += 1_000_000
    play.resume()
    assert play.first_audio_ns == ORIGIN_NS + 1_100_000_000
    left = track.read(0, 2 * RATE)
    assert np.flatnonzero(left)[0] == round(1.1 * RATE) and np.count_nonzero(left) == round(0.4 * RATE)


def test_a_reply_that_is_held_before_it_begins_begins_when_it_is_let_go() -> None:
    clock = VirtualClock()
    play, _ = playback(clock, needed_s=0.3)
    play.pause()
    play.write(0, tone(0.2))
    assert not play.pauses  # there was nothing to play yet
    clock.time_us += 100_000
    play.write(0, tone(0.2))
    clock.time_us += 100_000
    assert play.started_ns is None and play.heard(0) is None
    play.resume("no words")
    assert play.started_ns == play.first_audio_ns == clock.now_ns() and play.underruns == 0
    assert [(p.start_ns, p.end_ns) for p in play.pauses] == [(clock.now_ns() - 100_000_000, clock.now_ns())]


def test_a_pause_is_no_underrun_and_an_underrun_before_it_is_one() -> None:
    clock = VirtualClock()
    play, _ = playback(clock)
    play.write(0, tone(0.2))
    clock.time_us += 250_000  # 50 ms without sound
    play.pause()
    assert play.underruns == 1 and play.underrun_s == pytest.approx(0.05)
    clock.time_us += 1_000_000
    play.write(0, tone(0.2))
    play.resume()
    clock.time_us += 100_000
    play.write(0, tone(0.2))
    assert play.underruns == 1


def test_the_last_milliseconds_of_a_reply_are_not_worth_a_pause() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    play.write(0, tone(0.2))
    play.finish()
    clock.time_us += 196_000
    play.pause()
    assert not play.paused and np.count_nonzero(track.read(0, RATE)) == round(0.2 * RATE)


def test_played_waits_through_a_pause_and_ends_with_stop() -> None:
    clock = VirtualClock()
    play, _ = playback(clock)
    play.write(0, tone(0.4))
    play.finish()

    async def main() -> list[int]:
        ends: list[int] = []
        start_us = clock.time_us

        async def wait() -> None:
            await play.played()
            ends.append((clock.time_us - start_us) // 1000)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.1)
        play.pause()
        await asyncio.sleep(1.0)
        assert not waiting.done()
        play.resume()
        await asyncio.sleep(0.1)
        play.pause()
        await asyncio.sleep(1.0)
        play.resume()
        await waiting
        return ends

    (end_ms,) = run_virtually(clock, main())
    assert end_ms == pytest.approx(2400 - 2 * 5, abs=1)


def test_what_an_edge_has_read_ahead_leaves_and_is_heard_only_when_it_has_left() -> None:
    clock = VirtualClock()
    play, track = playback(clock)
    play.write(0, tone(1.0))
    clock.time_us += 100_000
    track.read(0, round(0.16 * RATE))  # a device that buffers 60 ms
    play.pause()
    assert play.heard(0) == pytest.approx(0.1)
    clock.time_us += 1_000_000
    assert play.heard(0) == pytest.approx(0.165)
    assert np.count_nonzero(track.read(round(0.16 * RATE), RATE)) == round(0.005 * RATE) - 1
    play.stop()
    assert play.heard(0) == pytest.approx(0.165)
