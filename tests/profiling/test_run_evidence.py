"""What a run is explained with comes back from its folder, whole or with a sentence about what is lacking."""

from pathlib import Path

import pytest

from profiling import operations as op
from profiling.calibration import Calibration, Rates, Sample
from profiling.environment import Machine
from profiling.machine.survey import Effort, Survey, survey
from profiling.run import RunUnwritable
from profiling.run_evidence import keep_evidence, keep_probes, load_evidence, run_ceilings
from profiling.trace.clock import SystemClock
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook

TINY = Effort(
    rounds=1, repetitions=2, each_s=0.001, width=64, memory_bytes=1 << 22, smallest_bytes=1 << 16, probe_s=0.02,
    probe_bytes=1 << 21, torch_types=(),
)  # fmt: skip


@pytest.fixture(scope="module")
def surveyed() -> Survey:
    return survey(SystemClock(), lambda step: None, effort=TINY, threads=(1, 2))


def book(diffusion_bytes: float = 1e6) -> WorkBook:
    diffusion = TermLaw(part="diffusion", rate="bfloat16, 2 threads", bytes=Linear(constant=diffusion_bytes))
    return WorkBook(
        operations={op.PATCH: OperationWork(terms=(diffusion,))},
        threads={"asr": 1, "llm": 1, "prefill": 2, "tts": 2},
        devices=dict.fromkeys(("asr", "llm", "prefill", "tts"), "cpu"),
    )


def calibration() -> Calibration:
    rates = Rates(name="Q8_0", unit="FLOP/s", device="cpu", threads=2, values=(1e9, 1.2e9, 1.1e9))
    samples = (Sample(operation=op.PATCH, duration_s=0.1, units={op.FORWARDS: 9}),)
    return Calibration(made="2026-01-01", machine=Machine.this(), engines={}, samples=samples, ceilings=(rates,))


def test_what_was_kept_comes_back(tmp_path: Path, surveyed: Survey) -> None:
    keep_evidence(tmp_path, book(), calibration(), surveyed)
    keep_probes(tmp_path, surveyed.probes)
    found = load_evidence(tmp_path)
    assert found.warnings == ()
    assert found.evidence.work_book == book() and found.evidence.calibration == calibration()
    assert found.cache_bytes == surveyed.cache_bytes and found.call_s["cpu"] > 0


def test_every_number_of_threads_has_ceilings_of_its_own(surveyed: Survey) -> None:
    found = run_ceilings(book(), surveyed, calibration(), surveyed.probes)
    assert {"float32, 1 thread", "float32, 2 threads", "Q8_0, 2 threads"} <= found.keys()
    assert found["float32, 1 thread"] != found["float32, 2 threads"]
    alone = run_ceilings(book(), None, calibration())
    assert alone["Q8_0, 2 threads"].value == 1.1e9 and len(alone) == 1


def test_an_older_run_says_what_it_lacks(tmp_path: Path) -> None:
    found = load_evidence(tmp_path)
    assert [sentence.split()[4] for sentence in found.warnings] == ["work.json", "calibration.json", "machine.json"]
    assert found.evidence.calibration is None and found.evidence.ceilings == {}
    assert not found.is_full_size_voxcpm2


def test_a_damaged_file_counts_as_absent(tmp_path: Path, surveyed: Survey) -> None:
    keep_evidence(tmp_path, book(), calibration(), surveyed)
    path = tmp_path / "calibration.json"
    path.write_text(path.read_text()[:-30])
    found = load_evidence(tmp_path)
    assert len(found.warnings) == 1 and "calibration.json" in found.warnings[0]
    assert found.evidence.ceilings and "Q8_0, 2 threads" not in found.evidence.ceilings


def test_the_published_size_of_voxcpm2_is_told_from_a_tiny_one(tmp_path: Path) -> None:
    for read, full in ((1e6, False), (4.5e9, True)):
        keep_evidence(tmp_path, book(read), None, None)
        assert load_evidence(tmp_path).is_full_size_voxcpm2 is full


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunUnwritable, match="cannot be written"):
        keep_evidence(tmp_path / "absent", book(), None, None)
