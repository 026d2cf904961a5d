import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.audio.stereo_writer import StereoWriter
from agent.errors import TurnscopeError

LEFT = np.linspace(-0.9, 0.9, 1600, dtype=np.float32)
RIGHT = np.linspace(0.5, -0.5, 1600, dtype=np.float32)


def assert_holds(path: Path, blocks: int, rate_hz: int = 16_000):
    samples, rate = soundfile.read(path, always_2d=True)
    assert rate == rate_hz and samples.shape == (1600 * blocks, 2)
    assert soundfile.info(path).subtype == "PCM_16"
    assert np.max(np.abs(samples - np.tile(np.stack((LEFT, RIGHT), axis=1), (blocks, 1))), initial=0) <= 0.5 / 32768


def test_the_file_is_complete_after_every_append(tmp_path):
    path = tmp_path / "conversation.wav"
    with StereoWriter(path, 22_050) as writer:
        assert_holds(path, 0, 22_050)
        for blocks in (1, 2, 3):
            writer.append(LEFT, RIGHT)
            assert writer.frames == 1600 * blocks
            assert_holds(path, blocks, 22_050)
    writer.close()
    assert_holds(path, 3, 22_050)


def test_a_killed_process_leaves_what_it_had(tmp_path):
    path = tmp_path / "conversation.wav"
    script = """
import os, pathlib, signal, sys
import numpy as np
from agent.audio.stereo_writer import StereoWriter
writer = StereoWriter(pathlib.Path(sys.argv[1]), 16000)
for _ in range(5):
    writer.append(np.linspace(-0.9, 0.9, 1600, dtype=np.float32), np.linspace(0.5, -0.5, 1600, dtype=np.float32))
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
    )
    assert killed.returncode == -signal.SIGKILL
    assert_holds(path, 5)


def test_values_beyond_full_scale_are_clipped(tmp_path):
    path = tmp_path / "conversation.wav"
    with StereoWriter(path, 16_000) as writer:
        writer.append(np.array([2.0, -2.0, 0.0], np.float32), np.array([1.0, -1.0, 0.0], np.float32))
    samples, _ = soundfile.read(path, dtype="int16")
    assert samples.tolist() == [[32767, 32767], [-32768, -32768], [0, 0]]


def test_a_full_disk_leaves_what_was_written(tmp_path):
    path = tmp_path / "conversation.wav"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with StereoWriter(path, 16_000) as writer:
        for _ in range(3):
            writer.append(LEFT, RIGHT)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, hard))
        try:
            with pytest.raises(TurnscopeError, match=r"conversation\.wav cannot be written \(.+\): "):
                writer.append(LEFT, RIGHT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert_holds(path, 3)
        assert path.stat().st_size == 44 + 3 * 1600 * 4
        writer.append(LEFT, RIGHT)  # there is space again
    assert_holds(path, 4)


def test_a_path_that_cannot_be_written_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "a.wav", Path("/dev/full")):
        with pytest.raises(TurnscopeError, match="cannot be written"):
            StereoWriter(path, 16_000)


def test_channels_of_unequal_length_are_refused(tmp_path):
    with StereoWriter(tmp_path / "a.wav", 16_000) as writer, pytest.raises(ValueError, match="shape"):
        writer.append(LEFT, RIGHT[:-1])
