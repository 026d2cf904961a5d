"""A whole calibration of fake engines, on a machine that others disturb or leave alone."""

from collections.abc import Iterator

import pytest

from agent.engine_choice import with_models
from agent.engines import Engines, Workers
from agent.experiments.calibration import calibrate as module
from agent.settings import load
from agent.worker import ThreadWorker
from profiling.calibration import Calibration
from profiling.machine.conditions import Conditions, Ticks
from profiling.trace.clock import Clock
from profiling.work_book import WorkBook
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, FakeVad
from tests.fakes.virtual_time import VirtualClock


@pytest.fixture
def engines() -> Iterator[Engines]:
    clock = VirtualClock()
    workers = [ThreadWorker(name, clock) for name in ("asr", "smart-turn", "llm", "tts")]
    yield Engines(FakeVad(), None, FakeAsr(clock, deaf=True), FakeLlm(clock), FakeTts(clock), Workers(*workers))
    for worker in workers:
        worker.stop()


def calibrated(engines: Engines, others: float, monkeypatch: pytest.MonkeyPatch) -> Calibration:
    """While other programs take such a share of the processors."""
    looks = 0

    def look(clock: Clock) -> Conditions:
        nonlocal looks
        looks += 1
        ticks = Ticks(total=1000 * looks, busy=round(1000 * others * looks), stolen=0, own=0)
        return Conditions(at_ns=clock.now_ns(), spin_s=0.001, load=1.0, ticks=ticks, mhz=None, throttled=None)

    monkeypatch.setattr(module, "look", look)
    monkeypatch.setattr(module, "onnx_rates", lambda clock, threads: [])
    for name in ("_ASR_S", "_PREFILL_S", "_DECODE_S", "_TTS_S"):
        monkeypatch.setattr(module, name, 0.0)
    settings = with_models(load(None, {"engines": "cpu"}))
    return module.calibrate(settings, engines, WorkBook(), VirtualClock(), lambda what: None)


def test_what_disturbed_it_is_kept_with_it(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibrated(engines, 0.4, monkeypatch)
    assert found.samples and found.phrases
    (warning,) = found.warnings
    assert "other programs used 40%" in warning
    assert Calibration.model_validate_json(found.model_dump_json()).warnings == found.warnings


def test_a_machine_that_is_left_alone_gives_no_warning(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    assert calibrated(engines, 0.02, monkeypatch).warnings == ()
