"""Fetching: verified, whole or not at all; unharmed by other processes, dead ones, full disks and bad sources."""

import errno
import io
import json
import shutil
import signal
from collections import namedtuple
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

from agent import models
from agent.errors import TurnscopeError
from agent.models import conversion, install
from agent.models.manifest import find
from agent.models.store import folder_of
from tests.models.store_in import WEIGHTS, Sandbox, promise, write_wheel

BLOCK = "from agent.models import install\ninstall.write_record = lambda folder: (print('BUSY', flush=True), input())"


def fetch(*names: str) -> str:
    """Fetch and return what was printed."""
    output = io.StringIO()
    models.fetch(names, Console(file=output))
    return output.getvalue()


def refusal(*names: str) -> str:
    """Fetch, expect it to fail, and return the sentence."""
    with pytest.raises(TurnscopeError) as error:
        fetch(*names)
    sentence = str(error.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_fetched_model_is_whole_recorded_and_leaves_nothing_behind(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    assert "tiny: ready" in fetch("tiny")
    assert (models.locate("tiny") / "weights.bin").read_bytes() == WEIGHTS
    expected = promise("", "", WEIGHTS)
    stored = models.stored_files("tiny")
    assert (stored["weights.bin"].size_bytes, stored["weights.bin"].sha256) == (1_048_576, expected["sha256"])
    assert sandbox.left_over() == []


def test_raw_material_of_a_conversion_is_not_kept(sandbox: Sandbox) -> None:
    files = [promise("a.raw", "a.raw", b"raw", keep=False), promise("b.txt", "b.txt", b"kept")]
    sandbox.add("mixed", {"kind": "wheel", "package": "mixed", "version": "1.0"}, files)
    write_wheel(sandbox.wheels, "mixed", {"a.raw": b"raw", "b.txt": b"kept"})
    fetch("mixed")
    assert {path.name for path in models.locate("mixed").iterdir()} == {"b.txt", "files.json"}


@pytest.mark.parametrize("promised", [{"sha256": "0" * 64}, {"size_bytes": 5}], ids=["hash", "size"])
def test_wrong_content_is_refused_and_deleted(sandbox: Sandbox, promised: dict[str, object]) -> None:
    sandbox.add_wheel_model("tiny", promised=promised)
    assert "refused and deleted" in refusal("tiny")
    assert sandbox.left_over() == []
    with pytest.raises(TurnscopeError, match="not on this machine"):
        models.locate("tiny")


def test_truncated_wheel_is_refused_and_a_good_one_then_accepted(sandbox: Sandbox) -> None:
    wheel = sandbox.add_wheel_model("tiny")
    good = wheel.read_bytes()
    wheel.write_bytes(good[: len(good) // 2])
    assert "wheel-of-tiny 1.0" in refusal("tiny")
    assert sandbox.left_over() == []
    wheel.write_bytes(good)
    fetch("tiny")
    models.locate("tiny")


def test_wheel_with_a_damaged_member_is_refused(sandbox: Sandbox) -> None:
    wheel = sandbox.add_wheel_model("tiny")
    damaged = bytearray(wheel.read_bytes())
    damaged[5000] ^= 0xFF
    wheel.write_bytes(damaged)
    assert "damaged or not the expected one" in refusal("tiny")
    assert sandbox.left_over() == []


def test_wheel_without_the_file_is_refused(sandbox: Sandbox) -> None:
    wheel = sandbox.add_wheel_model("tiny")
    wheel.unlink()
    write_wheel(sandbox.wheels, "wheel-of-tiny", {"data/other.bin": WEIGHTS})
    assert "data/weights.bin" in refusal("tiny")


def test_missing_package_is_told_in_pips_words(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny").unlink()
    sentence = refusal("tiny")
    assert "No matching distribution found for wheel-of-tiny==1.0" in sentence
    assert "try again" in sentence


def test_unreachable_index_is_told_as_such(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.add_wheel_model("tiny")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert "the package index cannot be reached" in refusal("tiny")


def test_unknown_name_lists_the_known_ones_before_anything_is_fetched(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    sandbox.add_wheel_model("other")
    sentence = refusal("tiny", "tinny")
    assert "'tinny'" in sentence and "tiny, other" in sentence
    assert not sandbox.store.exists()


def test_full_disk_is_noticed_before_the_download(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.add_wheel_model("tiny", scratch_bytes=5_000_000)
    usage = namedtuple("usage", "total used free")(10, 10, 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    sentence = refusal("tiny")
    assert "5.0 MB" in sentence and "1.0 MB" in sentence
    assert sandbox.left_over() == []


def test_disk_that_fills_up_meanwhile_leaves_nothing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.add_wheel_model("tiny")

    def no_room(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(install, "write_record", no_room)
    assert "No space left on device" in refusal("tiny")
    assert sandbox.left_over() == []


def test_store_that_cannot_be_written_is_one_sentence(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.add_wheel_model("tiny")
    (sandbox.root / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(sandbox.root / "a file"))
    assert "cannot be stored" in refusal("tiny")


def test_truncated_file_is_noticed_named_and_mended(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    fetch("tiny")
    weights = models.locate("tiny") / "weights.bin"
    weights.write_bytes(WEIGHTS[:7])
    with pytest.raises(TurnscopeError, match=r"weights.bin has 7 bytes.*`turnscope models fetch tiny`"):
        models.locate("tiny")
    models.ensure(["tiny"], Console(file=io.StringIO()))
    assert (models.locate("tiny") / "weights.bin").read_bytes() == WEIGHTS
    assert sandbox.left_over() == []


def test_changed_content_of_the_same_size_is_noticed_by_fetch(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    fetch("tiny")
    assert "here and whole" in fetch("tiny")
    weights = models.locate("tiny") / "weights.bin"
    weights.write_bytes(bytes(len(WEIGHTS)))
    assert "tiny: ready" in fetch("tiny")
    assert weights.read_bytes() == WEIGHTS


def test_unreadable_record_is_damage(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    fetch("tiny")
    for record in ("", "{", "[]", '{"weights.bin": 3}', '{"weights.bin": {"size": 3}}'):
        (folder_of(find("tiny")) / "files.json").write_text(record)
        with pytest.raises(TurnscopeError, match="damaged"):
            models.locate("tiny")
    assert "tiny: ready" in fetch("tiny")


def test_new_source_content_gets_a_folder_of_its_own(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    fetch("tiny")
    old = models.locate("tiny")
    sandbox.models.clear()
    sandbox.add_wheel_model("tiny", content=b"newer weights")
    with pytest.raises(TurnscopeError, match="not on this machine"):
        models.locate("tiny")
    fetch("tiny")
    assert models.locate("tiny") != old and old.is_dir()


def test_a_killed_fetch_starts_again_cleanly(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    with sandbox.start_fetch("tiny", before=BLOCK) as dead:
        assert _line_with(dead.stdout, "BUSY")
        dead.send_signal(signal.SIGKILL)
    assert len(sandbox.left_over()) == 1
    fetch("tiny")
    assert (models.locate("tiny") / "weights.bin").read_bytes() == WEIGHTS
    assert sandbox.left_over() == []


def test_what_a_killed_fetch_left_is_removed_by_the_fetch_of_another_model(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    sandbox.add_wheel_model("other", content=b"other")
    with sandbox.start_fetch("tiny", before=BLOCK) as dead:
        assert _line_with(dead.stdout, "BUSY")
        dead.send_signal(signal.SIGKILL)
    fetch("other")
    assert sandbox.left_over() == []


def test_a_fetch_waits_for_another_of_the_same_model_and_uses_its_result(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    sandbox.add_wheel_model("other", content=b"other")
    block_then_record = (
        "from agent.models import install\nrecord = install.write_record\n"
        "install.write_record = lambda folder: (print('BUSY', flush=True), input(), record(folder))"
    )
    with sandbox.start_fetch("tiny", before=block_then_record) as first:
        assert _line_with(first.stdout, "BUSY")
        fetch("other")
        assert len(sandbox.left_over()) == 1, "the live fetch must be left alone"
        with sandbox.start_fetch("tiny") as second:
            assert _line_with(second.stdout, "waiting")
            output, _ = first.communicate("go on\n")
            waited, _ = second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "tiny: ready" in output and "tiny: here and whole" in waited
    assert (models.locate("tiny") / "weights.bin").read_bytes() == WEIGHTS


def test_ctrl_c_leaves_nothing(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    with sandbox.start_fetch("tiny", before=BLOCK) as fetching:
        assert _line_with(fetching.stdout, "BUSY")
        fetching.send_signal(signal.SIGINT)
    assert fetching.returncode != 0
    assert sandbox.left_over() == []


def test_failed_conversion_gives_the_converters_last_words(sandbox: Sandbox) -> None:
    files = [promise("voice.onnx", "voice.onnx", b"no voice", keep=False)]
    sandbox.add("voice", {"kind": "wheel", "package": "voice", "version": "1.0"}, files, convert="piper")
    write_wheel(sandbox.wheels, "voice", {"voice.onnx": b"no voice"})
    sentence = refusal("voice")
    assert "could not be converted" in sentence and "DecodeError" in sentence
    assert sandbox.left_over() == []


def test_missing_library_of_a_converter_is_named_before_the_download(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.add_wheel_model("voice", convert="piper").unlink()
    monkeypatch.setattr(conversion, "CONVERTER_NEEDS", {"piper": ("no_such_library",)})
    assert "no_such_library" in refusal("voice")


def test_progress_bar_is_shown_on_a_terminal(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    sandbox.add_wheel_model("tiny")
    output = io.StringIO()
    models.fetch(["tiny"], Console(file=output, force_terminal=True, width=80))
    assert "downloading" in output.getvalue() and "tiny: ready" in output.getvalue()


def test_record_names_every_file(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("tiny")
    fetch("tiny")
    record = json.loads((models.locate("tiny") / "files.json").read_text())
    assert record.keys() == {"weights.bin"}


def _line_with(lines: Iterable[str] | None, text: str) -> bool:
    return any(text in line for line in lines or ())
