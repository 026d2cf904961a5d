"""`turnscope machine`: measured once, shown with its age, measured again when asked."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import surveying
from agent.cli.machine import machine, said_age
from agent.errors import TurnscopeError
from profiling.machine import survey as module
from tests.profiling.machine.fake_system import MIB

TINY = module.Effort(
    rounds=2, repetitions=2, each_s=0.002, width=64, memory_bytes=32 * MIB, smallest_bytes=MIB, probe_s=0.02,
    probe_bytes=10 * MIB, calls=20, torch_types=(),
)  # fmt: skip


@pytest.fixture
def surveys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of the test's own, a tiny survey, and a list of when one was made."""
    made: list[str] = []

    def tiny(clock, tell, **named):
        made.append("survey")
        return module.survey(clock, tell, effort=TINY, threads=(1,), **named)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(surveying, "survey", tiny)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(machine, arguments, catch_exceptions=False)


def test_a_survey_is_made_once_and_again_when_asked(surveys: list[str], tmp_path: Path) -> None:
    first = run()
    assert first.exit_code == 0 and len(surveys) == 1
    assert "float32" in first.stdout and "Took" in first.stdout
    assert "did not allow" in " ".join(first.stderr.split())  # 32 MiB are in no way beyond a cache
    file = tmp_path / "figures" / "machine.json"
    second = run("--json", str(file))
    assert len(surveys) == 1 and "Measured less than a minute ago" in second.stdout
    assert "float32" in {ceiling["name"] for ceiling in json.loads(file.read_text())["ceilings"]}
    assert "Took" in run("--again").stdout and len(surveys) == 2


def test_a_cache_that_cannot_be_written_stops_nothing(surveys: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    found = run()
    assert found.exit_code == 0 and "float32" in found.stdout
    assert "cannot be kept" in " ".join(found.stderr.split())


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(surveys: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TurnscopeError, match="cannot be written"):
        run("--json", str(tmp_path / "file" / "machine.json"))
    assert surveys == []


@pytest.mark.parametrize(
    ("s", "words"), [(5, "less than a minute"), (60, "1 minute"), (7300, "2 hours"), (200_000, "2 days")]
)
def test_age_in_words(s: float, words: str) -> None:
    assert said_age(s) == words
