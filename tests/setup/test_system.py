"""System packages: nothing is installed that is there, and what cannot be installed is named."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.setup import system
from agent.setup.steps import SetupError

SETUP = Path(system.__file__).parent
TOOLS = ("sh", "sed", "id", "mkdir", "tr", "env", "cat", "dirname")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of a few tools and no package manager, as the only folder of PATH; the current folder is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def add_tool(folder: Path, name: str, script: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def apt_sh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SETUP / "apt.sh", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def add_apt(folder: Path, known: str) -> None:
    """An apt that notes what it is asked and knows the packages `known`."""
    add_tool(folder, "apt-get", 'echo "$@" >>asked')
    add_tool(folder, "apt-cache", f'case " {known} " in *" $2 "*) ;; *) exit 1 ;; esac')


def test_root_installs_the_first_known_of_each_choice(bare: Path) -> None:
    add_apt(bare, known="python3.13-venv python3.11-venv g++")
    add_tool(bare, "id", "echo 0")
    result = apt_sh("Python and a compiler", "python3.14-venv|python3.13-venv|python3.11-venv|python3-venv", "g++")
    assert result.returncode == 0, result.stderr
    assert "Python and a compiler" in result.stdout
    asked = Path("asked").read_text().splitlines()
    assert asked[0].endswith("update")
    assert asked[1].endswith("install --yes --no-install-recommends python3.13-venv g++")


def test_sudo_is_used_by_others(bare: Path) -> None:
    add_apt(bare, known="g++")
    add_tool(bare, "id", "echo 1000")
    add_tool(bare, "sudo", '[ "$1" = -n ] && exit 0; echo sudo >>asked; "$@"')
    assert apt_sh("a compiler", "g++").returncode == 0
    assert Path("asked").read_text().splitlines()[0] == "sudo"


@pytest.mark.parametrize("has_apt", [True, False], ids=["no-root", "no-apt"])
def test_without_the_means_the_package_is_named_and_nothing_done(bare: Path, has_apt: bool) -> None:
    if has_apt:
        add_apt(bare, known="g++")
        add_tool(bare, "id", "echo 1000")
    result = apt_sh("Python and a compiler", "python3.14-venv|python3-venv", "g++")
    assert result.returncode == 1
    assert "Turnscope needs Python and a compiler" in result.stderr and "python3-venv g++" in result.stderr
    assert not Path("asked").exists()


def test_a_failed_installation_says_where_its_output_is(bare: Path) -> None:
    add_apt(bare, known="g++")
    add_tool(bare, "apt-get", 'case "$*" in *install*) echo no such mirror; exit 100 ;; esac')
    add_tool(bare, "id", "echo 0")
    result = apt_sh("a compiler", "g++")
    assert result.returncode == 1
    assert "'apt-get install g++' failed" in result.stderr and "build/setup.log" in result.stderr
    assert "no such mirror" in Path("build/setup.log").read_text()


def test_nothing_is_asked_for_where_nothing_is_missing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_apt(bare, known="g++ libgomp1")
    monkeypatch.setattr(system, "_loads", lambda library: True)
    add_tool(bare, "c++", "cat >/dev/null")
    system.require(needs_compiler=True)
    assert not Path("asked").exists()


def test_a_compiler_that_does_not_work_counts_as_missing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_loads", lambda library: False)
    add_tool(bare, "c++", "cat >/dev/null; exit 1")
    with pytest.raises(SetupError, match=r"a C\+\+ compiler and the GNU OpenMP runtime"):
        system.require(needs_compiler=True)
    with pytest.raises(SetupError, match=r"for want of the GNU OpenMP runtime"):
        system.require(needs_compiler=False)


def test_sound_and_what_tests_need_are_looked_for_when_asked(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_loads", lambda library: library == "libgomp.so.1")
    monkeypatch.setattr(system, "_has_pulse_plugin", lambda: True)
    system.require(needs_compiler=False)
    with pytest.raises(SetupError, match=r"for want of PortAudio\."):
        system.require(needs_compiler=False, sound=True)
    with pytest.raises(SetupError, match=r"for want of PortAudio, PulseAudio, PulseAudio's tools and Chromium\."):
        system.require(needs_compiler=False, tests=True)


def test_an_unsuitable_python_is_passed_over(bare: Path, tmp_path: Path) -> None:
    """setup.sh asks each Python whether it will do, and hands over to the first that says so."""
    checkout = tmp_path / "checkout"
    (checkout / "agent" / "setup").mkdir(parents=True)
    for script in ("setup.sh", "apt.sh"):
        shutil.copy(SETUP / script, checkout / "agent" / "setup")
    add_tool(bare, "python3", "exit 1")
    add_tool(bare, "python3.12", '[ "$1" = -c ] || echo "3.12 runs $*"')
    result = subprocess.run([checkout / "agent/setup/setup.sh", "--dev"], capture_output=True, text=True)
    assert result.stdout == "3.12 runs -m agent.setup --dev\n", result.stderr
    (bare / "python3.12").unlink()
    result = subprocess.run([checkout / "agent/setup/setup.sh"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "Turnscope needs Python 3.11 to 3.14 with its venv module" in result.stderr
    assert "python3-venv" in result.stderr and os.linesep not in result.stderr.strip()
