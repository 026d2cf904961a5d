"""The virtual environment: made once, brought up to date when a pin changes, made anew after an interruption."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agent.setup import environment, llama_wheel, steps, system
from agent.setup.steps import SetupError

SETUP = Path(environment.__file__).parent
PYPROJECT = Path(environment.__file__).parents[2] / "pyproject.toml"


class Machine:
    """Notes the commands that set-up runs instead of running them; `fails` names one that fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.fails = "nothing"

    def run_step(self, title: str, command: Sequence[str | Path], *_: Any, **__: Any) -> None:
        self.ran.append(" ".join(map(str, command)))
        if self.fails in self.ran[-1]:
            raise SetupError(title)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyproject.toml").write_bytes(PYPROJECT.read_bytes())
    (tmp_path / environment.PYTHON).parent.mkdir(parents=True)
    (tmp_path / environment.PYTHON).touch()
    monkeypatch.setattr(environment, "run_step", machine.run_step)
    monkeypatch.setattr(llama_wheel, "build_wheel", lambda version, python: machine.ran.append(f"build {version}"))
    monkeypatch.setattr(system, "require", lambda needs_compiler: None)
    return machine


def made_venv(machine: Machine) -> bool:
    return any("-m venv --clear" in command for command in machine.ran)


def test_a_new_checkout_gets_everything_in_order(machine: Machine) -> None:
    assert not environment.is_ready(dev=False)
    environment.set_up(dev=False)
    text = "\n".join(machine.ran)
    order = ["-m venv --clear", "pip setuptools", "build 0.", "--requirement=", "--editable .", "pip check"]
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert "requirements-dev.txt" not in text
    assert environment.is_ready(dev=False) and not environment.is_ready(dev=True)


def test_development_tools_are_added_to_the_same_environment_and_stay(machine: Machine) -> None:
    environment.set_up(dev=False)
    machine.ran.clear()
    environment.set_up(dev=True)
    assert not made_venv(machine) and "requirements-dev.txt" in "\n".join(machine.ran)
    assert environment.is_ready(dev=True) and environment.is_ready(dev=False)
    Path("pyproject.toml").write_text("changed")
    assert not environment.is_ready(dev=False)
    machine.ran.clear()
    environment.set_up(dev=False)
    assert not made_venv(machine) and "requirements-dev.txt" in "\n".join(machine.ran)
    assert environment.is_ready(dev=True)


def test_an_interrupted_set_up_is_begun_anew(machine: Machine) -> None:
    environment.set_up(dev=False)
    machine.fails = "requirements-dev.txt"
    with pytest.raises(SetupError):
        environment.set_up(dev=True)
    assert not environment.is_ready(dev=False)
    machine.fails = "nothing"
    machine.ran.clear()
    environment.set_up(dev=True)
    assert made_venv(machine) and environment.is_ready(dev=True)


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    environment.set_up(dev=False)
    environment.PYTHON.unlink()
    environment.PYTHON.symlink_to("/no/such/python")
    assert not environment.is_ready(dev=False)
    machine.ran.clear()
    environment.set_up(dev=False)
    assert made_venv(machine)


@pytest.mark.parametrize("stamp", ["", "half"])
def test_a_torn_stamp_counts_as_none(machine: Machine, stamp: str) -> None:
    environment.set_up(dev=False)
    Path(".venv/.ready").write_text(stamp)
    assert not environment.is_ready(dev=False)
    environment.set_up(dev=False)
    assert environment.is_ready(dev=False)


def test_a_moved_checkout_is_set_up_again(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.set_up(dev=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (".venv", "pyproject.toml"):
        (tmp_path / name).rename(elsewhere / name)
    monkeypatch.chdir(elsewhere)
    assert not environment.is_ready(dev=False)


def test_a_step_that_fails_shows_the_end_of_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["sh", "-c", "for i in $(seq 100); do echo line $i; done; exit 3"]
    with pytest.raises(SetupError, match=r"^Set-up stopped at 'Trying'.*: do this, then run the same command again\.$"):
        steps.run_step("Trying", command, "do this")
    captured = capsys.readouterr()
    assert "Trying ..." in captured.out
    assert captured.err.splitlines() == [f"line {number}" for number in range(86, 101)]


def test_everything_that_is_installed_is_pinned_and_fits_the_project() -> None:
    pins = {}
    for lock in ("requirements.txt", "requirements-dev.txt", "build-requirements.txt"):
        for line in (SETUP / lock).read_text().splitlines():
            if not line.startswith("#"):
                match = re.fullmatch(r"([a-z0-9-]+)==(\S+)", line)
                assert match, f"{lock}: {line}"
                assert pins.setdefault(match[1], match[2]) == match[2], f"two versions of {match[1]}"
    project = tomllib.loads(PYPROJECT.read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["cpu"], *extras["dev"], *project["build-system"]["requires"]]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
