"""Disk and memory are looked at before anything starts."""

from pathlib import Path

import pytest

from agent.errors import TurnscopeError
from agent.experiments.full_size import room
from agent.experiments.full_size.making import Recipe, make
from tests.experiments import tiny

SIZES = {"asr": 2_500_000_000, "llm": 6_700_000_000, "tts": 5_000_000_000}


def recipe(name: str, size_bytes: int) -> Recipe:
    return Recipe(name, tiny.ASR, 1, size_bytes, lambda folder: None, disk_bytes=size_bytes)


@pytest.fixture
def recipes(tmp_path: Path):
    with tiny.own_cache(tmp_path):
        yield {name: [recipe(name, size)] for name, size in SIZES.items()}


def test_too_little_disk_is_refused_with_what_would_fit(recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_free_disk_bytes", lambda: 6_000_000_000)
    with pytest.raises(TurnscopeError, match=r"up to 14\.2 GB .*where 6\.0 GB are free.*--only asr,tts\."):
        room.require_disk(recipes)


def test_what_is_made_needs_no_more_disk(recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    make(recipes["llm"][0], pytest.fail)
    monkeypatch.setattr(room, "_free_disk_bytes", lambda: 7_600_000_000)
    room.require_disk(recipes)


def test_too_little_memory_is_refused_with_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 7_000_000_000)
    with pytest.raises(TurnscopeError, match=r"for the scripted turn: .* 7\.0 GB are free.*--only asr\."):
        room.require_memory(["asr", "llm", "tts", "turn"], SIZES, "cpu")
    room.require_memory(["asr"], SIZES, "cpu")


def test_the_turn_takes_what_is_loaded_and_what_is_being_loaded() -> None:
    loaded = room.memory_bytes("turn", SIZES)
    assert loaded > sum(SIZES.values())
    assert room.memory_bytes("turn", {**SIZES, "tts": 0}) < loaded
    for engine in SIZES:
        assert SIZES[engine] < room.memory_bytes(engine, SIZES) < loaded


def test_a_system_that_does_not_tell_its_memory_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: None)
    room.require_memory(["turn"], SIZES, "cpu")


def test_a_gpu_has_a_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 16_000_000_000)
    monkeypatch.setattr(room, "available_gpu_memory_bytes", lambda device: 8_000_000_000)
    with pytest.raises(
        TurnscopeError, match=r"memory of cuda:1 does not suffice for the scripted turn.*--only asr,tts\."
    ):
        room.require_memory(["asr", "llm", "tts", "turn"], SIZES, "cuda:1")
    room.require_memory(["asr", "tts"], SIZES, "cuda:1")


def test_memory_is_read_from_the_system() -> None:
    available = room.available_memory_bytes()
    assert available is not None and 0 < available < 1 << 50
