"""Single keys from a terminal, which is afterwards as it was."""

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys, os
from agent.cli import interruption
from agent.cli.keys import keys
interruption.treat_sigterm_as_ctrl_c()
way = sys.argv[1]

async def main():
    over = asyncio.Event()
    def pressed(key):
        print("key", repr(key), flush=True)
        if key == "x":
            if way == "raise": raise SystemExit(3)
            if way == "leave": interruption._end(4)
            over.set()
    with keys(pressed) as there:
        print("ready", there, flush=True)
        await over.wait()

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(interruption.exit_code())
"""


class Terminal:
    """A program in a terminal of its own, and what it says."""

    def __init__(self, way: str) -> None:
        ours, theirs = pty.openpty()
        self.ours, self.before = ours, termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{PROGRAM}", way],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self.ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(request.param)
    try:
        assert terminal.line() == "ready True"
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("terminal", ["return"], indirect=True)
def test_each_key_comes_without_return_and_special_keys_do_not(terminal: Terminal) -> None:
    assert terminal.attributes() != terminal.before
    terminal.type("t")
    assert terminal.line() == "key 't'"
    terminal.type("\x1b[A")
    time.sleep(0.1)
    terminal.type("x")
    assert terminal.line() == "key 'x'"
    assert terminal.process.wait(10) == 0
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize(("terminal", "code"), [("raise", 3), ("leave", 4)], indirect=["terminal"])
def test_the_terminal_is_restored_when_the_program_breaks_or_leaves_at_once(terminal: Terminal, code: int) -> None:
    terminal.type("x")
    assert terminal.process.wait(10) == code
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize("terminal", ["return"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_restored_after_ctrl_c_and_sigterm(terminal: Terminal, number: int) -> None:
    if number == signal.SIGINT:
        terminal.type("\x03")
    else:
        terminal.process.send_signal(number)
    assert terminal.process.wait(10) == 128 + number
    assert terminal.attributes() == terminal.before


@pytest.mark.parametrize("terminal", ["return"], indirect=True)
def test_after_a_stop_keys_come_again(terminal: Terminal) -> None:
    termios.tcsetattr(terminal.ours, termios.TCSANOW, terminal.before)  # as a shell does meanwhile
    terminal.process.send_signal(signal.SIGSTOP)
    terminal.process.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + 5
    while terminal.attributes() == terminal.before and time.monotonic() < deadline:
        time.sleep(0.01)
    terminal.type("x")
    assert terminal.line() == "key 'x'"


def test_without_a_terminal_there_are_no_keys() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("await over.wait()", "pass"), "return"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=30,
    )
    assert done.stdout == "ready False\n" and done.returncode == 0, done.stderr
