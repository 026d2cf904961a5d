"""What `turnscope talk` says where it cannot begin: one sentence, exit code 2, and nothing is left behind."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.pulse import PulseServer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def card() -> Iterator[PulseServer]:
    with PulseServer() as card:
        yield card


def talk(card: PulseServer, folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    python = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {before or 'pass'}; from agent.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", python, "talk", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        env=card.environment | {"COLUMNS": "500"},
        timeout=60,
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert line.endswith(".")
    return line


def test_devices_are_listed(card: PulseServer, tmp_path: Path) -> None:
    done = talk(card, tmp_path, "--devices")
    assert done.returncode == 0 and done.stderr == ""
    assert {"usb_mic", "laptop_speaker", "default"} <= set(done.stdout.split())


def test_a_device_that_is_not_there_is_named_with_those_that_are(card: PulseServer, tmp_path: Path) -> None:
    said = sentence(talk(card, tmp_path, "--input", "headphones"))
    assert "no microphone 'headphones'" in said and "usb_mic" in said
    assert "no loudspeaker '99'" in sentence(talk(card, tmp_path, "--output", "99"))
    assert not list(tmp_path.iterdir())


def test_without_portaudio_or_sounddevice_or_echo_cancellation(card: PulseServer, tmp_path: Path) -> None:
    no_library = "import ctypes.util; ctypes.util.find_library = lambda _: None"
    assert "PortAudio" in sentence(talk(card, tmp_path, before=no_library))
    assert "sounddevice" in sentence(talk(card, tmp_path, before="sys.modules['sounddevice'] = None"))
    assert "pywebrtc_audio" in sentence(talk(card, tmp_path, before="sys.modules['pywebrtc_audio'] = None"))


def test_a_recording_that_cannot_be_made_is_told_before_models_load(card: PulseServer, tmp_path: Path) -> None:
    assert "cannot be named" in sentence(talk(card, tmp_path, "--record", "../elsewhere"))
    (tmp_path / "recordings" / "mine").mkdir(parents=True)
    (tmp_path / "recordings" / "mine" / "scenario.toml").write_text("")
    assert "exists already" in sentence(talk(card, tmp_path, "--record", "mine"))
    assert "recordings" in sentence(talk(card, tmp_path, "--runs", "recordings/mine/scenario.toml"))


def test_a_wrong_setting_leaves_no_folder_of_a_recording(card: PulseServer, tmp_path: Path) -> None:
    assert "context" in sentence(talk(card, tmp_path, "--record", "mine", "--thinking", "3000")).lower()
    assert not (tmp_path / "recordings" / "mine").exists()


def test_without_any_device(tmp_path: Path) -> None:
    with PulseServer() as card:
        card.kill()
        for arguments in ((), ("--devices",)):
            assert "found" in sentence(talk(card, tmp_path, *arguments))
