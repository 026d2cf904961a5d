"""Counted work is kept for the same files and settings, and counted again for others."""

import os
from pathlib import Path

import pytest

from agent.experiments.workload.kept import kept
from profiling.work_book import Linear, OperationWork

WORK = {"asr.step": OperationWork(steps=Linear(constant=3))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "encoder.onnx").write_bytes(b"weights")
    return tmp_path / "model"


def test_it_is_counted_once(folder: Path) -> None:
    assert kept(folder, {"chunk_s": 0.32}, lambda: WORK) == WORK
    assert kept(folder, {"chunk_s": 0.32}, lambda: pytest.fail("counted again")) == WORK


def test_other_settings_and_other_files_are_counted_anew(folder: Path) -> None:
    other = {"asr.step": OperationWork(steps=Linear(constant=4))}
    kept(folder, {"chunk_s": 0.32}, lambda: WORK)
    assert kept(folder, {"chunk_s": 0.64}, lambda: other) == other
    os.utime(folder / "encoder.onnx", (1, 1))
    assert kept(folder, {"chunk_s": 0.32}, lambda: other) == other


def test_a_damaged_or_impossible_cache_is_passed_over(folder: Path) -> None:
    kept(folder, {}, lambda: WORK)
    cache = folder.parent / "cache" / "turnscope" / "work"
    (file,) = cache.glob("*.json")
    file.write_text("{")
    assert kept(folder, {}, lambda: WORK) == WORK
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    cache.write_text("a file")
    assert kept(folder, {}, lambda: WORK) == WORK
