"""The check of the installed packages: silent about what is left out on purpose, and about nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.setup.check_packages import NOT_USED, conflicts

LEFT_OUT = "voxcpm 2.0.3 requires gradio, which is not installed."


@pytest.mark.parametrize(
    "line",
    [
        "voxcpm 2.0.3 requires librosa, which is not installed.",
        "nemo-toolkit 3.0.0 requires gradio, which is not installed.",
        "voxcpm 2.0.3 has requirement gradio<7,>=6, but you have gradio 5.0.",
        "torch 2.13.0 is not supported on this platform",
    ],
)
def test_only_the_named_absences_are_no_conflict(line: str) -> None:
    assert conflicts(f"{LEFT_OUT}\n{line}\n") == [line]


@pytest.mark.parametrize(("needs", "status"), [("gradio<7,>=6", 0), ("librosa-of-a-test", 1)])
def test_the_check_of_an_environment_fails_for_real_conflicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: str, status: int
) -> None:
    """A package named voxcpm that needs what is not there, in front of the real environment."""
    info = tmp_path / "voxcpm-2.0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: voxcpm\nVersion: 2.0.3\nRequires-Dist: {needs}\n")
    (info / "RECORD").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = subprocess.run([sys.executable, "-m", "agent.setup.check_packages"], capture_output=True, text=True)
    assert check.returncode == status, check.stdout
    assert f"voxcpm 2.0.3 requires {needs.partition('<')[0]}, which is not installed." in check.stdout


def test_what_is_left_out_is_not_pinned() -> None:
    locks = "\n".join(
        file.read_text() for file in (Path(__file__).parents[2] / "agent/setup").glob("requirements*.txt")
    )
    for name in NOT_USED["voxcpm"]:
        assert f"\n{name}==" not in locks
