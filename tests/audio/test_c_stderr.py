"""What is written to file descriptor 2 by whom, while C libraries are silenced."""

import subprocess
import sys

PROGRAM = """
import os, sys
from agent.audio.c_stderr import c_libraries_silenced
os.write(2, b"before ")
with c_libraries_silenced():
    os.write(2, b"ALSA lib pcm.c: underrun occurred ")
    print("python", end=" ", file=sys.stderr, flush=True)
    with c_libraries_silenced():
        os.write(2, b"Expression 'r' failed ")
        print("within", end=" ", file=sys.stderr)
print("again", end=" ", file=sys.stderr, flush=True)
os.write(2, b"after")
"""


def test_only_c_libraries_are_silent_and_only_meanwhile() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "before python within again after"
