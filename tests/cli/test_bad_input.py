"""What the command says to input that cannot be: one sentence, the right exit code, never a traceback, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.cli.interruption import ending_at_once
from profiling.run import load_run

Result = subprocess.CompletedProcess[str]


def turnscope(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    command = [sys.executable, "-m", "agent.cli", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "500", **environment},
    )


def sentence(result: Result, exit_code: int = 2) -> str:
    """The one sentence on standard error."""
    assert result.returncode == exit_code, (result.returncode, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr + result.stdout
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].rstrip().endswith("."), result.stderr
    return lines[0]


def wav(path: Path, samples: np.ndarray, subtype: str = "PCM_16") -> Path:
    soundfile.write(path, samples, 16_000, subtype)
    return path


def test_no_such_scenario_names_those_there_are() -> None:
    said = sentence(turnscope("replay", "capital-citys"))
    assert "did you mean capital-cities" in said and "go-forward" in said


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"RIFF\x24\x00\x00\x00WAVEfm"), "damaged"),
        (lambda path: path.write_text("hello"), "not a WAV file"),
        (lambda path: wav(path, np.zeros(16_000, np.float32)), "silent"),
        (lambda path: wav(path, np.array([0.1, np.nan] * 8000, np.float32), "FLOAT"), "not a number"),
    ],
)
def test_a_wav_file_that_cannot_be_used(tmp_path: Path, make: "object", words: str) -> None:
    path = tmp_path / "bad.wav"
    make(path)  # type: ignore[operator]
    said = sentence(turnscope("replay", path))
    assert "bad.wav" in said and (words in said or words == "not a number")


def test_a_broken_scenario_names_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text('description = "x"\nlicence = = 3\n')
    assert "line 2, column 11" in sentence(turnscope("replay", tmp_path))


def test_a_wrong_setting_is_named_by_flag_and_by_environment() -> None:
    assert "asr.chunk_ms" in sentence(turnscope("replay", "--chunk", "2000"))
    assert "llm.seed" in sentence(turnscope("replay", TURNSCOPE_LLM__SEED="x"))


def test_a_thought_longer_than_the_context_is_refused_while_loading(tmp_path: Path) -> None:
    said = sentence(turnscope("replay", "go-forward", "--thinking", "3000", "--runs", tmp_path))
    assert "a thought of 3000 tokens does not fit into the context of 2048 tokens" in said
    assert list(tmp_path.iterdir()) == []
    assert "llm.thinking_tokens" in sentence(turnscope("replay", "--thinking", "-5"))


def test_flags_of_other_engines_are_told_and_stop_nothing(tmp_path: Path) -> None:
    result = turnscope(
        "replay", "silence", "--no-calibrate", "--voice", "old man", "--no-asr-flush", "--runs", tmp_path
    )
    assert result.returncode == 0
    assert "Without effect on Moonshine: --no-asr-flush; on Piper: --voice." in result.stderr.splitlines()


def test_unknown_flags_commands_and_models() -> None:
    for arguments in (["replay", "--nonsense"], ["nonsense"], ["replay", "--endpoint", "never"]):
        result = turnscope(*arguments)
        assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "smollm2-135m" in sentence(turnscope("models", "fetch", "nonsense"))
    for name in ("nonsense", "moonshine-base-en"):
        assert f"no language model '{name}'" in sentence(turnscope("replay", "go-forward", "--llm", name))


def test_a_model_file_that_is_missing_or_of_the_wrong_kind(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    missing = turnscope("replay", "go-forward", "--llm", tmp_path / "absent.gguf", "--runs", runs)
    assert "absent.gguf" in sentence(missing)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"not a model")
    assert "wrong.gguf" in sentence(turnscope("replay", "go-forward", "--llm", wrong, "--runs", runs))


def test_a_runs_folder_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in sentence(turnscope("replay", "go-forward", "--runs", file / "runs"))
    assert "not a folder" in sentence(turnscope("replay", "go-forward", "--runs", file))


def test_a_bad_collector_address() -> None:
    assert "ftp://x" in sentence(turnscope("replay", "go-forward", "--otlp", "ftp://x"))


def test_explaining_what_is_no_run(tmp_path: Path) -> None:
    assert "turnscope replay" in sentence(turnscope("explain", cwd=tmp_path, PYTHONPATH=str(Path.cwd())))
    assert "nowhere" in sentence(turnscope("explain", tmp_path / "nowhere"))
    (tmp_path / "trace.jsonl").write_text("nonsense\n")
    assert "trace.jsonl" in sentence(turnscope("explain", tmp_path))


def stopped_after(seconds: float | None, tmp_path: Path, number: int) -> tuple[int, str, str]:
    """Run a replay and send it a signal after so many seconds, or (None) once it plays."""
    command = [
        sys.executable,
        "-m",
        "agent.cli",
        "replay",
        "go-forward",
        "capital-cities",
        "--no-calibrate",
        "--runs",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if seconds is None:
        while process.poll() is None and not list(tmp_path.glob("*/conversation.wav")):
            time.sleep(0.1)
        seconds = 2.0
    time.sleep(seconds)
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    return process.returncode, output, errors


@pytest.mark.parametrize("seconds", [0.4, 1.5, 4.0, None])
def test_ctrl_c_at_any_moment_keeps_what_there_is(tmp_path: Path, seconds: float | None) -> None:
    code, output, errors = stopped_after(seconds, tmp_path, signal.SIGINT)
    assert code in (130, -signal.SIGINT), (output, errors)  # the latter while Python itself starts
    assert "Traceback" not in output + errors
    assert seconds is not None or len(list(tmp_path.iterdir())) == 1
    for folder in tmp_path.iterdir():
        info = json.loads((folder / "run.json").read_text())
        assert info["complete"] is False
        run = load_run(folder)
        assert turnscope("explain", folder).returncode == 0
        if (folder / "conversation.wav").exists():
            sound, _ = soundfile.read(folder / "conversation.wav")
            assert sound.ndim == 2
            assert len(sound) > 0 or not run.turns


@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_terminated_replay_keeps_what_there_is_too(tmp_path: Path, inherited: signal.Handlers) -> None:
    """Also where SIGINT is ignored, as in a background job of a script."""
    before = signal.signal(signal.SIGINT, inherited)
    try:
        code, output, errors = stopped_after(None, tmp_path, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 143 and "Traceback" not in output + errors
    (folder,) = tmp_path.iterdir()
    assert load_run(folder).info is not None


def test_a_full_disk_stops_the_run_with_a_sentence_and_keeps_what_fitted(tmp_path: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); "
    start = "from agent.cli import main; sys.argv[0] = 'turnscope'; main()"
    command = [sys.executable, "-c", limited + start, "replay", "go-forward", "--no-calibrate", "--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "500"})
    assert "conversation.wav cannot be written" in sentence(done)
    (folder,) = tmp_path.iterdir()
    assert soundfile.info(folder / "conversation.wav").frames > 22_050
    assert load_run(folder).info is not None


def test_output_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    def run(redirected: str) -> Result:
        command = ["bash", "-c", f"{sys.executable} -m agent.cli {redirected}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=90)

    assert "The output cannot be written: No space left" in sentence(run("models > /dev/full"))
    assert run("models >&-").returncode == 0
    assert run(f"explain {tmp_path}/absent 2>&-").returncode == 2
    assert run(f"explain {tmp_path}/absent 2>/dev/full").returncode == 2
    assert run(f"replay silence --runs {tmp_path} 2>/dev/full >&-").returncode == 0
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "run.json").read_text())["complete"] is True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_nothing_is_worth_keeping_a_signal_ends_the_process_at_once(number: int, code: int) -> None:
    loading = (
        "import time; from agent.cli.interruption import ending_at_once\n"
        "with ending_at_once():\n print('in', flush=True)\n time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", loading], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "in\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (code, "")


def test_afterwards_ctrl_c_is_an_interruption_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ending_at_once():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", ["trace.jsonl", "run.json"])
def test_a_run_of_devices_and_pipes_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    result = turnscope("explain", tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_a_trace_that_cannot_be_read_is_an_error_though_the_run_is_known(tmp_path: Path) -> None:
    assert turnscope("replay", "silence", "--no-calibrate", "--runs", tmp_path).returncode == 0
    (folder,) = tmp_path.iterdir()
    assert turnscope("explain", folder).returncode == 0
    (folder / "trace.jsonl").write_text("nonsense\n" * 1000)
    assert "1000 lines" in sentence(turnscope("explain", folder))


def test_output_into_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    replay = f"replay go-forward --runs {tmp_path}"
    for arguments, reader in (("models", "head -n 1"), (replay, "grep --max-count=1 'Turn 1'")):
        command = f"set -o pipefail; {sys.executable} -m agent.cli {arguments} | {reader}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=90)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    (folder,) = tmp_path.iterdir()
    assert len(load_run(folder).turns) == 1
