"""Where the models lie that settings name."""

from pathlib import Path

import pytest

from agent import models
from agent.engine_choice import with_models
from agent.errors import TurnscopeError
from agent.models.chosen import asr_model, llm_file, tts_folder
from agent.settings import Settings, load


def settings(**named: str) -> Settings:
    return with_models(load(flags={"engines": "cpu"} | {stage: {"model": name} for stage, name in named.items()}))


def test_those_of_the_default_set_up_lie_in_the_store() -> None:
    default = settings()
    assert asr_model(default) == models.locate("moonshine-base-en")
    assert llm_file(default) == models.locate("smollm2-135m") / "model.gguf" and llm_file(default).is_file()
    assert tts_folder(default) == models.locate("piper-en-us-joe")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert llm_file(settings(llm=str(tmp_path / "own.gguf"))) == tmp_path / "own.gguf"


def test_the_big_ones_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.engine_choice.PACKAGES", {})
    own = settings(asr=str(tmp_path / "own.nemo"), tts=str(tmp_path))
    assert (asr_model(own), tts_folder(own)) == (tmp_path / "own.nemo", tmp_path)
    monkeypatch.setattr(models, "locate", lambda name: tmp_path / name)
    stored = settings(asr="nemotron", tts="voxcpm2")
    assert (asr_model(stored), tts_folder(stored)) == (tmp_path / "nemotron" / "model.nemo", tmp_path / "voxcpm2")


def test_one_that_is_not_here_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(TurnscopeError, match=r"smollm2-135m"):
        llm_file(settings())
