"""The run folder: unique, whole at every moment, readable however it was left."""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiling.run import FORMAT, RunInfo, RunUnreadable, RunUnwritable, RunWriter, load_run, writing
from profiling.trace.spans import TurnContent
from tests.profiling.turns import answered, interrupted


class Clock:
    """A clock at 2026-03-01 10:15:02 UTC; `step_ns` steps its wall time."""

    def __init__(self) -> None:
        self.monotonic = 10**9
        self.step_ns = 0

    def now_ns(self) -> int:
        return self.monotonic

    def wall_ns(self) -> int:
        epoch_s = datetime.datetime(2026, 3, 1, 10, 15, 2, tzinfo=datetime.UTC).timestamp()
        return int(epoch_s) * 10**9 + self.monotonic - 10**9 + self.step_ns


def writer(parent: Path, clock: Clock | None = None, name: str = "go forward") -> RunWriter:
    return RunWriter(
        parent,
        name,
        clock or Clock(),
        settings={"llm": {"max_tokens": 160}},
        scenarios=["go-forward"],
        models={"smollm2-135m": "ab" * 32},
    )


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    clock = Clock()
    run = writer(tmp_path / "runs", clock)
    assert run.folder == tmp_path / "runs" / "20260301T101502Z-go-forward"
    run.write_turn(answered(index=1))
    run.write_turn(interrupted(index=2), TurnContent("stop", "Once upon"))
    clock.monotonic += 60 * 10**9
    run.close(complete=True)
    loaded = load_run(run.folder)
    assert loaded.turns == (answered(index=1), interrupted(index=2))
    assert loaded.contents == (None, TurnContent("stop", "Once upon"))
    assert loaded.warnings == () and loaded.folder == run.folder
    assert loaded.info == run.info and run.info.complete and run.info.scenarios == ("go-forward",)
    assert run.info.models == {"smollm2-135m": "ab" * 32} and run.info.settings == {"llm": {"max_tokens": 160}}
    assert run.info.versions["python"] == sys.version.split()[0] and "numpy" in run.info.versions
    assert run.info.machine.cpu and 1 <= run.info.machine.usable_cores <= run.info.machine.cores
    assert run.wav_path.parent == run.trace_path.parent == run.folder
    assert load_run(run.folder / "run.json") == load_run(run.trace_path) == loaded


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    folders = [writer(tmp_path).folder for _ in range(3)]
    assert len(set(folders)) == 3 and sorted(folders) == folders


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("", "run"),
        ("\u4f60\u597d", "run"),
        ("a b\nc", "a-b-c"),
        ("x" * 300, "x" * 60),
    ],
)
def test_any_name_makes_a_folder_inside_the_parent(tmp_path: Path, name: str, slug: str) -> None:
    folder = writer(tmp_path, name=name).folder
    assert folder.parent == tmp_path and folder.name == f"20260301T101502Z-{slug}"


def test_a_run_that_was_killed_is_readable(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.profiling.test_run import writer, answered\n"
        "run = writer(Path(sys.argv[1])); run.write_turn(answered()); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, check=False)
    assert done.returncode == -9
    (folder,) = tmp_path.iterdir()
    loaded = load_run(folder)
    assert loaded.turns == (answered(),)
    assert loaded.info is not None and not loaded.info.complete and loaded.info.end is None
    assert loaded.warnings == ("The run was stopped before its end.",)


def test_a_run_that_was_stopped_before_its_first_turn_is_readable(tmp_path: Path) -> None:
    run = writer(tmp_path)
    run.close(complete=False)
    loaded = load_run(run.folder)
    assert loaded.turns == () and len(loaded.warnings) == 2


@pytest.mark.parametrize("stepped_s", [3600, -0.06])
def test_a_stepped_clock_is_reported_and_the_durations_hold(tmp_path: Path, stepped_s: float) -> None:
    clock = Clock()
    run = writer(tmp_path, clock)
    run.write_turn(answered())
    clock.step_ns = int(stepped_s * 1e9)
    run.close(complete=True)
    loaded = load_run(run.folder)
    assert loaded.turns == (answered(),)
    assert len(loaded.warnings) == 1 and f"{stepped_s:+.3f} s" in loaded.warnings[0]
    clock.step_ns = int(0.04e9)
    run.close(complete=True)
    assert load_run(run.folder).warnings == ()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\x00",
        b"[]",
        b"7",
        b'{"name": 5}',
        b"[" * 10_000,
        json.dumps({"name": "x", "started": "", "machine": {}, "start": [1, 2]}).encode(),
    ],
)
def test_a_damaged_run_json_costs_a_sentence(tmp_path: Path, damage: bytes) -> None:
    run = writer(tmp_path)
    run.write_turn(answered())
    (run.folder / "run.json").write_bytes(damage)
    loaded = load_run(run.folder)
    assert loaded.turns == (answered(),) and loaded.info is None
    assert len(loaded.warnings) == 1 and "run.json is damaged" in loaded.warnings[0]


def test_anchors_out_of_range_are_damage(tmp_path: Path) -> None:
    run = writer(tmp_path)
    run.write_turn(answered())
    info = json.loads((run.folder / "run.json").read_text())
    info["end"] = {"monotonic_ns": 0, "wall_ns": 10**400}
    (run.folder / "run.json").write_text(json.dumps(info))
    assert "damaged" in load_run(run.folder).warnings[0]


def test_a_missing_run_json_costs_a_sentence(tmp_path: Path) -> None:
    run = writer(tmp_path)
    run.write_turn(answered())
    (run.folder / "run.json").unlink()
    for path in (run.folder, run.trace_path):
        loaded = load_run(path)
        assert loaded.turns == (answered(),)
        assert len(loaded.warnings) == 1 and "the settings and versions of the run are not known" in loaded.warnings[0]


def test_a_trace_under_another_name_is_read_alone(tmp_path: Path) -> None:
    run = writer(tmp_path)
    run.write_turn(answered())
    moved = run.trace_path.rename(tmp_path / "from-a-friend.json")
    loaded = load_run(moved)
    assert loaded.turns == (answered(),) and loaded.warnings == () and loaded.info is None


def test_a_newer_format_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    run = writer(tmp_path)
    run.close(complete=True)
    info = json.loads((run.folder / "run.json").read_text()) | {"format": FORMAT + 1, "unheard_of": [1]}
    (run.folder / "run.json").write_text(json.dumps(info))
    loaded = load_run(run.folder)
    assert loaded.info is not None and any("newer turnscope" in warning for warning in loaded.warnings)


def test_nothing_to_explain_is_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"resourceLogs": []}\n')
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere", other, tmp_path / "folder", tmp_path / "x\0y", tmp_path / ("n" * 300)):
        with pytest.raises(RunUnreadable) as caught:
            load_run(path)
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_what_cannot_be_written_is_one_sentence_that_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RunUnwritable, match=r"The run folder .*file.* cannot be written: .*; give another folder"):
        writer(tmp_path / "file")
    with pytest.raises(RunUnwritable, match="the disk is full; free some space"), writing(tmp_path):
        Path("/dev/full").write_text("x")


def test_a_full_disk_while_run_json_is_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = writer(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunUnwritable, match="disk is full"):
        run.close(complete=True)
    assert sorted(file.name for file in run.folder.iterdir()) == ["run.json", "trace.jsonl"]
    assert RunInfo.model_validate_json((run.folder / "run.json").read_bytes()).complete is False


def test_settings_keep_their_types(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"a": None, "b": [1, 2.5, "x"], "c": {"d": True}}
    run = RunWriter(tmp_path, "x", Clock(), settings=settings)
    run.write_turn(answered())
    info = load_run(run.folder).info
    assert info is not None and info.settings == settings
