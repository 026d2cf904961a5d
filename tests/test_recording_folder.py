"""Where a recording goes: names that are refused, and the name by which it is found again."""

from pathlib import Path

import pytest

from agent.errors import TurnscopeError
from agent.recording_folder import new_recording
from agent.scenario import load_scenario
from tests.fakes.recorded import Recorded
from tests.fakes.talk import says


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../up",
        "/etc",
        "a\\b",
        "a b",
        "-rf",
        "a\n",
        "a\0b",
        "x" * 61,
        "con:",
        "a.wav",
        "\u202eabc",
        "*",
    ],
)
def test_a_name_that_is_no_plain_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match="cannot be named"):
        new_recording(name, tmp_path / "recordings")
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_is_refused_and_one_of_an_empty_folder_is_not(tmp_path: Path) -> None:
    folder = new_recording("mine", tmp_path)
    assert new_recording("mine", tmp_path) == folder
    (folder / "scenario.toml").write_text("")
    with pytest.raises(TurnscopeError, match="exists already"):
        new_recording("mine", tmp_path)
    with pytest.raises(TurnscopeError, match="bundled scenario"):
        new_recording("go-forward", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TurnscopeError, match="cannot be made"):
        new_recording("file", tmp_path)


def test_a_recording_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Recorded(new_recording("Grüße_1"), [says("hello")], ["Hello."])
    assert load_scenario("Grüße_1").expect_turns == 1
