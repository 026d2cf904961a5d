"""When transcripts are final: the schedule on a recogniser whose times are known exactly, and the study whole on a tiny
Nemotron."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agent.asr.nemotron_choices import CHUNKS_MS
from agent.engine_choice import with_models
from agent.experiments.calibration.budget import Budget
from agent.experiments.studies import finalisation
from agent.experiments.studies.finalisation import Cadence, Speech, ending, measure
from agent.experiments.studies.study import Bench
from agent.settings import load
from profiling.trace.clock import SystemClock
from tests.fakes.engines import FakeAsr, silence, speech
from tests.fakes.virtual_time import VirtualClock
from tests.tiny_models.nemotron import write_nemotron

RATE_HZ = 16_000
SPOKEN = Speech(np.concatenate([speech("hello how are you today"), silence(0.5)]), RATE_HZ)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def cadence(clock: VirtualClock, chunk_ms: int = 320, *, waits: bool = True, step_s: float = 0.03) -> Cadence:
    chunk = chunk_ms * RATE_HZ // 1000
    engine = FakeAsr(clock, needs_whole_chunks=waits, chunk_samples=chunk, step_cost_s=step_s)
    return Cadence(chunk_ms / 1000, engine, engine.chunk_end)


@pytest.mark.parametrize("phase", [1 / 8, 1 / 2, 7 / 8])
def test_speech_ends_where_it_is_told_to_and_only_the_unflushed_wait_for_the_chunk(
    clock: VirtualClock, phase: float
) -> None:
    found = ending(cadence(clock), SPOKEN, phase)
    assert found.wait_s == pytest.approx(phase * 0.32, abs=1e-4)
    assert found.flushed_s == pytest.approx(0.05) and found.queue_s == 0  # the last step has long been over
    assert found.unflushed_s == pytest.approx(found.wait_s + 0.05)
    assert found.last_step_s == pytest.approx(0.03)


def test_a_step_that_is_still_computed_when_speech_ends_is_queued_for(clock: VirtualClock) -> None:
    """Speech ends 40 ms after a chunk, whose step takes 100 ms."""
    found = ending(cadence(clock, step_s=0.1), SPOKEN, 7 / 8)
    assert found.queue_s == pytest.approx(0.06, abs=1e-4)
    assert found.flushed_s == pytest.approx(0.06 + 0.05, abs=1e-4)
    assert found.unflushed_s == pytest.approx(0.28 + 0.05, abs=1e-4)


def test_chunks_that_come_due_while_the_recogniser_is_busy_are_taken_together(clock: VirtualClock) -> None:
    """Steps of 150 ms over chunks of 80 ms: every second one."""
    heard: list[int] = []
    slow = cadence(clock, chunk_ms=80, step_s=0.15)
    counted(slow.engine, heard)
    found = ending(slow, SPOKEN, 1 / 2)
    flushed = heard[: len(heard) // 2]
    assert set(flushed[1:-1]) == {2 * 1280} and sum(flushed) == SPOKEN.end
    assert found.busy == pytest.approx((len(flushed) - 1) * 0.15 + 0.05)


def counted(engine: object, heard: list[int]) -> None:
    """Keep the length of all that is given to the engine's streams."""
    opened: Callable[[], object] = engine.open  # type: ignore[attr-defined]

    def listening() -> object:
        stream = opened()
        for name in ("step", "finalize"):
            own = getattr(stream, name)
            setattr(stream, name, lambda samples, stop, own=own: heard.append(len(samples)) or own(samples, stop))
        return stream

    engine.open = listening  # type: ignore[attr-defined]


def test_the_final_transcript_is_that_of_all_that_was_said(clock: VirtualClock) -> None:
    texts: list[str] = []
    one = cadence(clock)
    opened = one.engine.open

    def listening() -> object:
        stream = opened()
        own = stream.finalize
        stream.finalize = lambda *given: [final := own(*given), texts.append(final.text)][0]  # type: ignore[method-assign]
        return stream

    one.engine.open = listening  # type: ignore[method-assign, assignment]
    for phase in (1 / 8, 1 / 2):
        ending(one, SPOKEN, phase)
    assert texts == ["hello how are you today"] * 4


def test_a_model_that_waits_for_no_chunk_is_only_flushed(clock: VirtualClock) -> None:
    found = ending(cadence(clock, waits=False), SPOKEN, 1 / 2)
    assert found.unflushed_s is None and found.flushed_s == pytest.approx(0.05)


def test_all_chunks_are_measured_at_the_same_phases_whose_mean_is_a_half(clock: VirtualClock) -> None:
    found = list(measure([cadence(clock, 80), cadence(clock, 320)], [SPOKEN], Budget(clock, 0)))
    assert [one.chunk_s for one in found] == [0.08, 0.32] * 3
    for chunk_s in (0.08, 0.32):
        waits = [one.wait_s / chunk_s for one in found if one.chunk_s == chunk_s]
        assert sum(waits) / len(waits) == pytest.approx(0.5, abs=1e-3)
    assert len(list(measure([cadence(clock)], [SPOKEN], Budget(clock, 0.5)))) in (3, 5, 7, 9)


def test_a_tiny_nemotron_in_all_its_chunks(tmp_path: Path) -> None:
    settings = with_models(
        load(None, {"engines": "cpu", "asr": {"model": str(write_nemotron(tmp_path / "tiny.nemo"))}})
    )
    found = finalisation.run(Bench(settings, SystemClock(), lambda what: None, budget_s=0))
    assert [row[0] for row in found.rows] == [f"{chunk} ms" for chunk in CHUNKS_MS]
    for one in found.data["endings"]:
        assert one["unflushed_s"] > one["wait_s"] and one["flushed_s"] > 0 and one["last_step_s"] > 0
    at_1120 = next(row for row in found.rows if row[0] == "1120 ms")
    assert int(at_1120[5]) > 560 > int(at_1120[2])
    assert "Flushing makes the transcript final earlier by" in found.sentence


def test_moonshine_at_several_cadences() -> None:
    bench = Bench(with_models(load(None, {"engines": "cpu"})), SystemClock(), lambda what: None, budget_s=0)
    found = finalisation.run(bench)
    assert [row[0] for row in found.rows] == ["160 ms", "320 ms", "640 ms", "1120 ms"]
    assert found.sentence.startswith("There is nothing to flush")
