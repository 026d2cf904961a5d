"""The start that the commands with engines share."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from agent.cli import consoles, loading_engines
from agent.cli.loading_engines import chosen, engines_ready, fetch_absent, say_what_to_know
from agent.cli.pipeline_options import pipeline_options

NO_FLAGS: dict[str, Any] = dict.fromkeys(option.name for option in pipeline_options(lambda: None).__click_params__)


@pytest.fixture
def notes() -> Console:
    return Console(file=io.StringIO(), width=200)


def shown(notes: Console) -> str:
    return notes.file.getvalue()  # type: ignore[attr-defined]


def test_settings_have_a_model_for_every_stage_and_what_the_command_adds() -> None:
    settings = chosen(None, NO_FLAGS | {"engines": "cpu", "chunk": 640}, capture_content=True)
    assert settings.asr.model and settings.llm.model and settings.tts.model
    assert settings.asr.chunk_ms == 640 and settings.capture_content


def test_what_the_engines_make_nothing_of_is_said(notes: Console) -> None:
    say_what_to_know(chosen(None, NO_FLAGS | {"engines": "cpu", "diffusion_steps": 4}), notes)
    assert "Without effect" in shown(notes) and "--diffusion-steps" in shown(notes)


def test_only_models_of_the_default_set_up_are_fetched(notes: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(loading_engines.models, "ensure", lambda names, console: asked.extend(names))
    monkeypatch.setattr(loading_engines, "needed_models", lambda settings: ["silero-vad", "voxcpm2"])
    fetch_absent(chosen(None, NO_FLAGS), notes)
    assert asked == ["silero-vad"]


def test_the_workers_end_with_the_block_also_when_it_fails(notes: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    async def close() -> None:
        ended.append(True)

    engines: Any = SimpleNamespace(workers=SimpleNamespace(close=close))
    told: list[str] = []

    def load(settings: object, clock: object, tell: Any) -> Any:
        tell("loading the voice")
        told.append("loaded")
        return engines

    monkeypatch.setattr(loading_engines, "load_engines", load)
    monkeypatch.setattr(loading_engines.models, "ensure", lambda names, console: None)
    settings = chosen(None, NO_FLAGS | {"engines": "cpu"})
    with engines_ready(settings, notes) as ready:
        assert ready is engines and told and not ended
    assert ended == [True]
    with pytest.raises(ValueError, match="of the command"), engines_ready(settings, notes):
        raise ValueError("of the command")
    assert ended == [True, True]


@pytest.mark.parametrize(("line", "told"), [("{} …", "Reading {x} …"), ("Busy with {} …", "Busy with reading {x} …")])
def test_progress_is_a_sentence(line: str, told: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with consoles.progress(console, line) as tell:
        tell("reading {x}")
    assert told in shown(console)
