"""The virtual environment: made once, brought up to date when a pin changes, made anew after an interruption."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agent.models import manifest
from agent.setup import cuda, environment, llama_wheel, steps, system, torch_build
from agent.setup.__main__ import main
from agent.setup.cuda import Cuda
from agent.setup.environment import Level
from agent.setup.steps import SetupError

SETUP = Path(environment.__file__).parent
PYPROJECT = Path(environment.__file__).parents[2] / "pyproject.toml"
WITHOUT_CUDA, WITH_CUDA = "cuda: Optional[str] = None", "cuda: Optional[str] = '13.0'"
SITE_PACKAGES = Path(".venv/lib/python3.11/site-packages")
TORCH = SITE_PACKAGES / "torch" / "version.py"
TORCHAUDIO = SITE_PACKAGES / "torchaudio" / "lib" / "libtorchaudio.so"
GPU = Cuda(("NVIDIA H200 (9.0)",), "/usr/local/cuda/bin/nvcc", "12.8")


class Machine:
    """Notes the commands that set-up runs instead of running them; `fails` names one that fails.

    `cuda` is what it has of it, and `torch` the line that says so in the PyTorch that pip finds.
    """

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.fails = "nothing"
        self.cuda = Cuda()
        self.torch = WITHOUT_CUDA

    def run_step(self, title: str, command: Sequence[str | Path], *_: Any, **__: Any) -> None:
        self.ran.append(" ".join(map(str, command)))
        if self.fails in self.ran[-1]:
            raise SetupError(title)
        if "--force-reinstall --no-deps torch==" in self.ran[-1]:
            TORCHAUDIO.touch()
        if " torch==" in self.ran[-1] and (not TORCH.exists() or "--force-reinstall" in self.ran[-1]):
            TORCH.parent.mkdir(parents=True, exist_ok=True)
            TORCH.write_text(f"from typing import Optional\n{self.torch}\n")
        if "requirements-gpu.txt" in self.ran[-1] and not TORCHAUDIO.parent.exists():
            TORCHAUDIO.parent.mkdir(parents=True, exist_ok=True)
            TORCHAUDIO.touch()

    def build_wheel(self, version: str, python: Path, cuda: Cuda | None) -> None:
        self.ran.append(f"build {version} {'with' if cuda else 'without'} CUDA")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyproject.toml").write_bytes(PYPROJECT.read_bytes())
    (tmp_path / environment.PYTHON).parent.mkdir(parents=True)
    (tmp_path / environment.PYTHON).touch()
    (tmp_path / SITE_PACKAGES).mkdir(parents=True)
    monkeypatch.setattr(environment, "run_step", machine.run_step)
    monkeypatch.setattr(llama_wheel, "build_wheel", machine.build_wheel)
    monkeypatch.setattr(cuda, "find", lambda: machine.cuda)
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    monkeypatch.setattr(system, "require", lambda needs_compiler, tests: None)
    return machine


def made_venv(machine: Machine) -> bool:
    return any("-m venv --clear" in command for command in machine.ran)


def asked_for(machine: Machine) -> set[str]:
    return set(re.findall(r"--requirement=\S+/requirements(?:-(\w+))?\.txt", "\n".join(machine.ran)))


def test_a_new_checkout_gets_everything_in_order(machine: Machine) -> None:
    assert not environment.is_ready("run")
    environment.set_up("run")
    text = "\n".join(machine.ran)
    order = ["-m venv --clear", "pip setuptools", "build 0.", "--requirement=", "--editable .", "check_packages"]
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert environment.is_ready("run") and not environment.is_ready("gpu") and not environment.is_ready("dev")


@pytest.mark.parametrize(
    ("level", "locks"), [("run", {""}), ("gpu", {"", "gpu"}), ("dev", {"", "gpu", "dev"})], ids=environment.LEVELS
)
def test_each_level_has_what_it_needs_and_no_more(machine: Machine, level: Level, locks: set[str]) -> None:
    environment.set_up(level)
    assert asked_for(machine) == locks
    assert any(" torch==" in command for command in machine.ran) == (level != "run")


def test_a_higher_level_is_added_to_the_same_environment_and_stays(machine: Machine) -> None:
    environment.set_up("run")
    machine.ran.clear()
    environment.set_up("dev")
    assert not made_venv(machine) and asked_for(machine) == {"", "gpu", "dev"}
    assert environment.is_ready("dev") and environment.is_ready("gpu") and environment.is_ready("run")
    Path("pyproject.toml").write_text("changed")
    assert not environment.is_ready("run")
    machine.ran.clear()
    environment.set_up("gpu")
    assert not made_venv(machine) and asked_for(machine) == {"", "gpu", "dev"}
    assert environment.is_ready("dev")


def test_without_a_device_everything_is_for_the_cpu(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    environment.set_up("gpu")
    assert capsys.readouterr().out == "No CUDA device: the big engines will run on the CPU, slowly.\n"
    assert any(command.endswith("without CUDA") for command in machine.ran)
    assert not TORCHAUDIO.exists()


def test_with_a_device_and_nvcc_everything_is_for_cuda(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.cuda, machine.torch = GPU, WITH_CUDA
    environment.set_up("gpu")
    assert capsys.readouterr().out.splitlines() == [str(GPU)]
    assert any(command.endswith("with CUDA") for command in machine.ran)
    assert TORCHAUDIO.exists()
    assert environment.is_ready("gpu")


def test_a_pytorch_without_cuda_beside_a_device_is_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.cuda = GPU
    environment.set_up("gpu")
    assert "PyTorch came as a build without CUDA" in capsys.readouterr().out
    assert not TORCHAUDIO.exists()


def test_a_driver_that_comes_later_brings_the_other_build_of_pytorch(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.set_up("gpu")
    machine.cuda, machine.torch = Cuda(GPU.devices), WITH_CUDA
    assert not environment.is_ready("gpu") and not TORCHAUDIO.exists()
    environment.set_up("gpu")
    assert torch_build.has_cuda(SITE_PACKAGES) and TORCHAUDIO.exists()
    assert "without CUDA, which pip's settings" not in capsys.readouterr().out
    machine.ran.clear()
    Path("pyproject.toml").write_text("changed")
    environment.set_up("gpu")
    assert not any("--force-reinstall --no-deps torch==" in command for command in machine.ran)


def test_a_driver_is_nothing_to_the_default_pipeline(machine: Machine) -> None:
    environment.set_up("run")
    machine.cuda = Cuda(GPU.devices)
    assert environment.is_ready("run")


def test_the_default_pipeline_is_for_the_cpu_and_silent_about_cuda(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cuda = GPU
    environment.set_up("run")
    assert any(command.endswith("without CUDA") for command in machine.ran)
    assert capsys.readouterr().out == ""


def test_a_device_or_compiler_that_comes_or_goes_is_noticed(machine: Machine) -> None:
    environment.set_up("gpu")
    machine.cuda = GPU
    assert not environment.is_ready("gpu")
    environment.set_up("gpu")
    assert environment.is_ready("gpu")
    machine.cuda = Cuda(GPU.devices)
    assert not environment.is_ready("run")


def test_set_up_for_the_big_engines_names_the_weights_once(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    main("gpu")
    said = capsys.readouterr().out
    assert "several minutes and gigabytes" in said
    match = re.search(r"turnscope models fetch ([^`]+)`", said)
    assert match and not any(manifest.find(name).embedded for name in match[1].split())
    main("gpu")
    main("run")
    assert capsys.readouterr().out == ""


def test_an_interrupted_set_up_is_begun_anew(machine: Machine) -> None:
    environment.set_up("run")
    machine.fails = "requirements-dev.txt"
    with pytest.raises(SetupError):
        environment.set_up("dev")
    assert not environment.is_ready("run")
    machine.fails = "nothing"
    machine.ran.clear()
    environment.set_up("dev")
    assert made_venv(machine) and environment.is_ready("dev")


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    environment.set_up("run")
    environment.PYTHON.unlink()
    environment.PYTHON.symlink_to("/no/such/python")
    assert not environment.is_ready("run")
    machine.ran.clear()
    environment.set_up("run")
    assert made_venv(machine)


@pytest.mark.parametrize("stamp", ["", "half", "whole test"])
def test_a_torn_stamp_counts_as_none(machine: Machine, stamp: str) -> None:
    environment.set_up("run")
    Path(".venv/.ready").write_text(stamp)
    assert not environment.is_ready("run")
    environment.set_up("run")
    assert environment.is_ready("run")


def test_a_moved_checkout_is_set_up_again(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.set_up("run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (".venv", "pyproject.toml"):
        (tmp_path / name).rename(elsewhere / name)
    monkeypatch.chdir(elsewhere)
    assert not environment.is_ready("run")


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
    for lock in ("requirements.txt", "requirements-gpu.txt", "requirements-dev.txt", "build-requirements.txt"):
        for line in (SETUP / lock).read_text().splitlines():
            if not line.startswith("#"):
                match = re.fullmatch(r"([a-z0-9-]+)==(\S+)", line)
                assert match, f"{lock}: {line}"
                assert pins.setdefault(match[1], match[2]) == match[2], f"two versions of {match[1]}"
    project = tomllib.loads(PYPROJECT.read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [requirement for extra in ("cpu", "talk", "web", "gpu", "dev") for requirement in extras[extra]]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
