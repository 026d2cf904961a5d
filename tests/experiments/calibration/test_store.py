"""Stored calibrations: found again for what they were measured with, and for nothing else."""

import json
from pathlib import Path

import pytest

from agent.engine_choice import with_models
from agent.errors import TurnscopeError
from agent.experiments.calibration import store
from agent.settings import Settings, load
from profiling.calibration import Calibration, Sample
from profiling.environment import Machine


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "turnscope" / "calibrations"


def settings(**sections: object) -> Settings:
    return with_models(load(None, {"engines": "cpu", **sections}))


def calibration() -> Calibration:
    return Calibration(
        made="2026-01-01T00:00:00+00:00",
        machine=Machine.this(),
        engines={"asr": "a", "llm": "b", "tts": "c"},
        samples=(Sample(operation="llm.token", duration_s=0.1, units={"kv_bytes": 3.0}),),
    )


def test_what_was_kept_is_found_again() -> None:
    assert store.find(settings()) is None
    store.keep(settings(), calibration())
    assert store.find(settings()) == calibration()


def test_other_settings_that_change_the_measurements_have_another_one() -> None:
    store.keep(settings(), calibration())
    for other in ({"asr": {"chunk_ms": 640}}, {"llm": {"threads": 2}}, {"tts": {"threads": 2}}):
        assert store.find(settings(**other)) is None
    for same in ({"llm": {"thinking_tokens": 64}}, {"llm": {"max_tokens": 20}}, {"endpoint": {"hangover_s": 0.5}}):
        assert store.find(settings(**same)) is not None


def test_a_damaged_one_or_one_of_another_version_is_none(cache: Path) -> None:
    path = store.keep(settings(), calibration())
    path.write_text(path.read_text()[:-20])
    assert store.find(settings()) is None
    store.keep(settings(), calibration().model_copy(update={"format": 99}))
    assert store.find(settings()) is None


def test_one_that_also_kept_its_settings_is_read() -> None:
    path = store.keep(settings(), calibration())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": {"llm": {"threads": 2}}}))
    assert store.find(settings()) == calibration()


def test_what_cannot_be_kept_is_told(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    with pytest.raises(TurnscopeError, match=r"calibration cannot be kept .*XDG_CACHE_HOME"):
        store.keep(settings(), calibration())
