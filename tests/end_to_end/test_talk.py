"""`turnscope talk` on a sound card in software: the real command in a terminal of its own, spoken to through its
microphone; what its loudspeaker played is recognised again."""

import errno
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import pytest

from agent import models
from agent.asr.moonshine import MoonshineEngine
from agent.recording_folder import SETTINGS_FILE
from agent.scenario import load_scenario
from agent.settings import load
from agent.tts.speakable import speakable
from profiling.critical_path import critical_path
from profiling.run import Run, load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from profiling.trace.vocabulary import EndReason
from tests.fakes.pulse import PulseServer

ROOT = Path(__file__).parents[2]
QUESTIONS = load_scenario("capital-cities").utterances
PATIENCE_S = 60.0


class Terminal:
    """The command in a terminal of 120 columns, and all that it has shown."""

    def __init__(self, card: PulseServer, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        python = f"import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); sys.path.insert(0, {str(ROOT)!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{python}; from agent.cli import main; main()", "talk", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=card.environment | {"COLUMNS": "120", "LINES": "40", "TERM": "xterm"},
            start_new_session=True,
        )
        self.shown = ""

    def wait_for(self, pattern: str, seen: int = 0) -> re.Match[str]:
        """The first match behind the first `seen` characters of what is shown."""
        deadline = time.monotonic() + PATIENCE_S
        while (match := re.compile(pattern).search(self.shown, seen)) is None:
            assert time.monotonic() < deadline and self._read(), self.shown
        return match

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(10)

    def is_as_it_was(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self) -> bool:
        """Whether there may be more."""
        if not select.select([self._ours], [], [], 0.1)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._ours, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            return False
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode("utf-8", "replace"))
        return True


@dataclass(frozen=True)
class Talked:
    run: Run
    shown: str
    heard: np.ndarray
    exit_code: int
    terminal_restored: bool
    folder: Path


@pytest.fixture(scope="module")
def card() -> Iterator[PulseServer]:
    with PulseServer() as card:
        yield card


@pytest.fixture(scope="module")
def talked(card: PulseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talked]:
    folder = tmp_path_factory.mktemp("talk")
    recorder = card.record(folder / "heard.raw", 16_000)
    terminal = Terminal(
        card,
        folder,
        *("--input", "usb_mic", "--output", "laptop_speaker", "--record", "capitals", "--content"),
        *("--no-calibrate", "--max-tokens", "24"),
    )
    try:
        terminal.wait_for(r"Speak\.")
        card.play(QUESTIONS[0].recording.path)
        seen = terminal.wait_for(r"You waited [^\n]*\n").end()
        terminal.type("t")
        terminal.wait_for(r"t thinking 32", seen)
        card.play(QUESTIONS[1].recording.path)
        seen = terminal.wait_for(r"thinking off -> 32: [^\n]*\n", seen).end()
        terminal.type("q")
        exit_code = terminal.end()
        recorder.terminate()
        recorder.wait()
        (run,) = (folder / "runs").iterdir()
        heard = np.fromfile(folder / "heard.raw", "<f4")
        yield Talked(load_run(run), terminal.shown, heard, exit_code, terminal.is_as_it_was(), folder)
    finally:
        terminal.close()


def words(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("-", " ")).split())


def test_what_is_said_is_recognised_and_answered(talked: Talked) -> None:
    assert talked.exit_code == 0, talked.shown
    assert [turn.end_reason for turn in talked.run.turns] == [EndReason.COMPLETED] * 2
    said = [words(content.transcript) for content in talked.run.contents if content]
    assert jiwer.wer([words(str(question.transcript)) for question in QUESTIONS[:2]], said) <= 0.2, said
    for turn in talked.run.turns:
        path = critical_path(turn)
        assert path is not None and path.total_ns == turn.latency_ns
        assert turn.speech_end_estimated


def test_the_loudspeaker_says_what_the_replies_say(talked: Talked) -> None:
    engine = MoonshineEngine(models.locate("moonshine-base-en"), clock=SystemClock())
    loud = np.flatnonzero(np.abs(talked.heard) > 0.003)
    apart = np.flatnonzero(np.diff(loud) > 16_000)
    ends = zip([loud[0], *loud[apart + 1]], [*loud[apart], loud[-1]], strict=True)
    pieces = [talked.heard[max(0, first - 1600) : last + 1600] for first, last in ends]
    heard = words(speakable(" ".join(engine.open().finalize(piece, lambda: False).text for piece in pieces)))
    said = words(speakable(" ".join(content.reply for content in talked.run.contents if content)))
    assert jiwer.wer(said, heard) <= 0.25, (said, heard)


def test_the_screen_shows_the_conversation_and_where_each_wait_went(talked: Talked) -> None:
    assert "What you say is recorded in recordings/capitals." in talked.shown
    assert "Microphone: usb_mic. Loudspeaker: laptop_speaker." in talked.shown
    lines = re.findall(r"You waited ([\d,]+) ms: ([^\n]*)", talked.shown)
    for turn, (whole, parts) in zip(talked.run.turns, lines, strict=True):
        assert turn.latency_ns is not None and int(whole.replace(",", "")) == round(turn.latency_ns / 1e6)
        assert "endpoint wait" in parts
    assert "LLM thinking +" in talked.shown.split("thinking off -> 32: ")[1]
    thought = [turn.groups[(v.LLM, None)][v.UNSPOKEN_TOKENS] for turn in talked.run.turns]
    assert thought[0] == 0 and isinstance(thought[1], int) and 0 < thought[1] <= 40
    assert talked.terminal_restored


def test_the_recording_holds_what_was_said_and_replays(talked: Talked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(talked.folder)
    recorded = load_scenario("capitals")
    assert recorded.expect_turns == 2
    assert [utterance.after for utterance in recorded.utterances] == ["absolute", "reply_end"]
    said = [words(str(utterance.transcript)) for utterance in recorded.utterances]
    assert said == [words(content.transcript) for content in talked.run.contents if content]
    assert load(Path("recordings/capitals") / SETTINGS_FILE).llm.max_tokens == 24


def test_ctrl_c_in_a_reply_ends_within_3_s_with_the_trace_written(card: PulseServer, tmp_path: Path) -> None:
    terminal = Terminal(card, tmp_path, "--headset", "--detail", "--no-calibrate")
    try:
        terminal.wait_for(r"Speak\.")
        card.play(QUESTIONS[2].recording.path)
        terminal.wait_for(r"agent  ")
        began_s = time.monotonic()
        terminal.type("\x03")
        assert terminal.end() == 128 + signal.SIGINT
        assert time.monotonic() - began_s < 3.0
        assert terminal.is_as_it_was()
    finally:
        terminal.close()
    (folder,) = (tmp_path / "runs").iterdir()
    run = load_run(folder)
    assert run.info is not None and run.info.complete and not run.warnings
    assert [turn.end_reason for turn in run.turns] == [EndReason.STOPPED]
    assert not (tmp_path / "recordings").exists()
