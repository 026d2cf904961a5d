"""The default engines calibrated, then a replay that explains itself: the real commands, with less measured."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import gathering, surveying
from agent.cli.commands import cli
from agent.experiments.calibration import calibrate
from agent.experiments.calibration.onnx_rates import onnx_rates
from agent.user_cache import cache_folder
from profiling import operations as op
from profiling.calibration import Calibration
from profiling.machine.probe import Prober, ProbeReading, ShouldStop
from profiling.machine.survey import Effort, Survey, Tell, survey
from profiling.roofline import READ
from profiling.run import load_run
from profiling.run_evidence import load_evidence
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, SystemClock
from profiling.trace.vocabulary import Stage

QUICK = Effort(
    rounds=4, repetitions=2, each_s=0.01, width=256, memory_bytes=1 << 27, smallest_bytes=1 << 20, probe_s=0.05,
    probe_bytes=1 << 24, torch_types=(),
)  # fmt: skip


class ProcessorClock(SystemClock):
    """The processor time of the calling thread, in which what runs beside the tests does not count: so little as is
    measured here finds ceilings on a loaded machine too, and none that a step of the run exceeds."""

    def now_ns(self) -> int:
        return time.thread_time_ns()


def quick_survey(_: Clock, tell: Tell, devices: Mapping[str, str]) -> Survey:
    """So little is measured that now and then, beside other tests, the time to read memory does not grow with the bytes
    for certain: then it is measured again, as a user is told to do."""
    for _attempt in range(10):
        found = survey(ProcessorClock(), tell, devices=devices, effort=QUICK)
        if {ceiling.threads for ceiling in found.ceilings if ceiling.name == READ} == {1, found.machine.usable_cores}:
            break
    return found


class OwnTimeProber(Prober):
    def read(self, clock: Clock, *, limit_s: float = 0.0, should_stop: ShouldStop | None = None) -> ProbeReading:
        return super().read(ProcessorClock(), limit_s=min(limit_s, QUICK.probe_s), should_stop=should_stop)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's cache with the models of the real one and nothing that was measured."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "turnscope").mkdir()
    (folder / "turnscope" / "models").symlink_to(cache_folder() / "models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setattr(surveying, "survey", quick_survey)
        patch.setattr(gathering, "Prober", OwnTimeProber)
        patch.setattr(calibrate, "onnx_rates", lambda clock, threads: onnx_rates(ProcessorClock(), threads))
        for name in ("_ASR_S", "_PREFILL_S", "_DECODE_S", "_TTS_S"):
            patch.setattr(calibrate, name, 0.0)
        yield folder / "turnscope"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, [*arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def calibrated(cache: Path) -> Result:
    return run("calibrate", "--engines", "cpu")


@pytest.fixture(scope="module")
def replayed(calibrated: Result, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    runs = tmp_path_factory.mktemp("runs")
    output = run("replay", "go-forward", "--engines", "cpu", "--runs", str(runs)).stdout
    (folder,) = runs.iterdir()
    return output, folder


def test_every_operation_is_calibrated_and_shown(calibrated: Result, cache: Path) -> None:
    (file,) = (cache / "calibrations").glob("*.json")
    found = Calibration.model_validate_json(file.read_bytes())
    assert {sample.operation for sample in found.samples} == set(op.OPERATIONS)
    assert len({phrase.units for phrase in found.phrases if not phrase.checks}) >= 6
    for words in ("LLM, a token", "per MB of KV cache", "per second encoded", "int8 in ONNX Runtime, 1 thread"):
        assert words in calibrated.stdout


def test_what_was_measured_is_not_measured_again(calibrated: Result, cache: Path) -> None:
    (file,) = (cache / "calibrations").glob("*.json")
    before = file.read_bytes()
    run("calibrate", "--engines", "cpu")
    assert file.read_bytes() == before


def test_the_run_keeps_what_it_is_explained_with(replayed: tuple[str, Path]) -> None:
    _, folder = replayed
    found = load_evidence(folder)
    assert found.warnings == ()
    assert found.evidence.work_book.ceilings <= found.evidence.ceilings.keys()
    readings = json.loads((folder / "probes.json").read_text())["readings"]
    assert readings[0]["at_ns"] < readings[-1]["at_ns"] and len(readings) >= 2


def test_its_steps_carry_their_work(replayed: tuple[str, Path]) -> None:
    (turn,) = load_run(replayed[1]).turns
    worked = {Stage.ASR_FINALIZE, Stage.LLM_PREFILL, Stage.LLM_FIRST_PHRASE, Stage.TTS_SETUP, Stage.TTS_FIRST_PATCH}
    for step in turn.steps:
        if step.stage in worked:
            assert all(step.attributes[name] for name in (v.WORK_FLOPS, v.WORK_BYTES, v.WORK_STEPS))
            worked.discard(step.stage)
    assert not worked


def test_it_says_why_at_its_end_and_when_asked_again(replayed: tuple[str, Path]) -> None:
    output, folder = replayed
    again = run("explain", str(folder)).stdout
    for text in (output, again):
        for words in ("bound by", "what would change it", "Predicted and measured", "first audio", "TOO FEW"):
            assert words in text
    assert "  why " in again  # of the turn, too


def test_what_if_answers_from_the_same_folder(replayed: tuple[str, Path]) -> None:
    told = run("what-if", str(replayed[1]), "--quant", "Q4_0", "--thinking", "16").stdout
    assert "LLM thinking" in told and "turn latency" in told
