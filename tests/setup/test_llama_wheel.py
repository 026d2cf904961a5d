"""The wheel of llama-cpp-python: built once per machine, whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.setup import llama_wheel
from agent.setup.cuda import Cuda
from agent.setup.steps import SetupError

GPU = Cuda(("NVIDIA H200 (9.0)",), "/opt/cuda/bin/nvcc", "12.8")

PIP = """#!/bin/sh
echo "build with CUDACXX=$CUDACXX" >>"$BUILDS"
for argument; do
    case $argument in --wheel-dir=*) folder=${argument#*=} ;; esac
done
printf half >"$folder/llama_cpp_python-1.0-py3-none-any.whl"
sh -c "$THEN" || exit 1
printf whole >"$folder/llama_cpp_python-1.0-py3-none-any.whl"
"""


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A python whose `-m pip wheel` notes each build in the file builds and runs $THEN half-way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDS", str(tmp_path / "builds"))
    monkeypatch.setenv("THEN", "true")
    monkeypatch.delenv("CUDACXX", raising=False)
    python = tmp_path / "python"
    python.write_text(PIP)
    python.chmod(0o755)
    return python


def builds() -> int:
    return len(Path("builds").read_text().splitlines())


def cached_wheel() -> Path | None:
    return llama_wheel.wheel_in(llama_wheel.wheel_folder("1.0", None))


def test_it_is_built_once_and_kept(pip: Path) -> None:
    assert cached_wheel() is None
    llama_wheel.build_wheel("1.0", pip, None)
    llama_wheel.build_wheel("1.0", pip, None)
    wheel = cached_wheel()
    assert wheel is not None and wheel.read_text() == "whole"
    assert builds() == 1


def test_the_command_names_version_and_options(pip: Path) -> None:
    llama_wheel.build_wheel("1.0", pip, None)
    log = Path("build/setup.log").read_text()
    assert "llama-cpp-python==1.0" in log
    assert "cmake.define.GGML_NATIVE=ON" in log and "llama_without_common.cmake" in log
    assert "GGML_CUDA" not in log


def test_with_cuda_it_is_another_wheel_built_by_that_nvcc(pip: Path) -> None:
    llama_wheel.build_wheel("1.0", pip, None)
    llama_wheel.build_wheel("1.0", pip, GPU)
    assert "cmake.define.GGML_CUDA=ON" in Path("build/setup.log").read_text()
    assert Path("builds").read_text().splitlines() == ["build with CUDACXX=", "build with CUDACXX=/opt/cuda/bin/nvcc"]
    assert llama_wheel.wheel_in(llama_wheel.wheel_folder("1.0", GPU)) not in (None, cached_wheel())


def test_a_failed_build_with_cuda_says_how_to_do_without(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEN", "exit 1")
    with pytest.raises(SetupError, match=r"GPU.*set CMAKE_ARGS=-DGGML_CUDA=OFF to do without CUDA"):
        llama_wheel.build_wheel("1.0", pip, GPU)


def test_a_failed_build_leaves_no_wheel_and_says_what_to_do(
    pip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THEN", "echo fatal error: no such header; exit 1")
    with pytest.raises(SetupError, match=r"Building llama-cpp-python.*compiler, then run the same command again\."):
        llama_wheel.build_wheel("1.0", pip, None)
    assert "fatal error: no such header" in capsys.readouterr().err
    assert cached_wheel() is None


def test_a_killed_build_is_begun_anew(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEN", "kill -9 $PPID; exit 1")
    with pytest.raises(SetupError):
        llama_wheel.build_wheel("1.0", pip, None)
    folder = llama_wheel.wheel_folder("1.0", None)
    left = folder.with_name(f"{folder.name}.unfinished")
    assert list(left.glob("wheel/*.whl")), "the killed build leaves half a wheel where none is looked for"
    assert cached_wheel() is None
    monkeypatch.setenv("THEN", "true")
    llama_wheel.build_wheel("1.0", pip, None)
    wheel = cached_wheel()
    assert wheel is not None and wheel.read_text() == "whole"
    assert not left.exists()


def test_a_second_build_at_the_same_time_waits_for_the_first(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("busy")
    os.mkfifo("gate")
    monkeypatch.setenv("THEN", "echo >busy; read -r go <gate")
    code = (
        "from pathlib import Path; from agent.setup import llama_wheel; "
        f"llama_wheel.build_wheel('1.0', Path({str(pip)!r}), None)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(llama_wheel.__file__).parents[2])}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)

    with start() as first:
        Path("busy").read_text()
        with start() as second:
            assert second.stdout is not None and "waiting" in second.stdout.readline()
            Path("gate").write_text("go\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert builds() == 1


def test_other_options_processors_and_gpus_make_other_wheels(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del pip
    gpus = (None, GPU, Cuda(GPU.devices, GPU.nvcc, "13.0"), Cuda(("NVIDIA L4 (8.9)",), GPU.nvcc, GPU.nvcc_release))
    folders = [llama_wheel.wheel_folder("1.0", gpu) for gpu in gpus]
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=ON")
    folders.append(llama_wheel.wheel_folder("1.0", None))
    monkeypatch.setattr(llama_wheel, "_processor_features", lambda: "flags : fpu sse2")
    folders.append(llama_wheel.wheel_folder("1.0", None))
    assert len(set(folders)) == len(folders)


def test_a_second_gpu_of_the_same_kind_needs_no_other_wheel(pip: Path) -> None:
    del pip
    two = Cuda(GPU.devices * 2, GPU.nvcc, GPU.nvcc_release)
    assert llama_wheel.wheel_folder("1.0", two) == llama_wheel.wheel_folder("1.0", GPU)
