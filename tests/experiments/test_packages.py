"""An engine whose package is missing is named and passed over."""

from pathlib import Path

import pytest

from agent.errors import TurnscopeError
from agent.experiments.full_size import packages, room
from agent.experiments.full_size.experiment import PHASES, Experiment, Plan
from tests.experiments import tiny


def looked_at(phases: tuple[str, ...], tmp_path: Path) -> Experiment:
    return Experiment(Plan(phases, "cpu", tiny.EFFORT, tmp_path, tiny.SHAPES))


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    monkeypatch.setattr(packages, "is_installed", lambda package: package not in missing)


def test_one_engine_is_passed_over_and_the_turn_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "nemo")
    experiment = looked_at(PHASES, tmp_path)
    assert experiment.notes == [
        "nemo is not installed: the recogniser is passed over; `make setup-gpu` brings it.",
        "The scripted turn needs all three engines: it is passed over.",
    ]
    assert experiment._phases == ["llm", "tts"] and experiment._recipes.keys() == {"llm", "tts"}


def test_what_was_not_asked_for_is_not_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "nemo")
    assert looked_at(("llm",), tmp_path).notes == []


def test_several_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "torch", "voxcpm")
    assert looked_at(("llm", "tts"), tmp_path).notes == [
        "torch and voxcpm are not installed: the voice is passed over; `make setup-gpu` brings them."
    ]


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "gguf")
    with pytest.raises(TurnscopeError, match="nothing to measure: gguf is not installed: the language model"):
        looked_at(("llm",), tmp_path)


def test_a_llama_cpp_without_cuda_is_said_and_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import llama_cpp

    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: False)
    experiment = Experiment(Plan(("llm",), "cuda", tiny.EFFORT, tmp_path, tiny.SHAPES))
    (note,) = experiment.notes
    assert note.startswith("llama-cpp-python was built without CUDA") and experiment._llm_placed.device == "cpu"


def test_a_phase_whose_room_others_have_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with tiny.own_cache(tmp_path / "cache"):
        experiment = looked_at(("llm",), tmp_path)
        free = iter([1 << 40, 1000])
        monkeypatch.setattr(room, "available_memory_bytes", lambda: next(free))
        experiment.require_room()
        report = experiment.run(lambda what: None)
    assert report.rows == [] and report.run_folder is None
    (note,) = report.notes
    assert note.startswith("Passed over: the language model. Memory does not suffice")
