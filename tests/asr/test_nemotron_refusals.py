"""What Nemotron's engine refuses, in one sentence each, and that it loads without a word and without the network."""

import errno
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from agent.asr.nemotron import NemotronEngine
from agent.asr.nemotron_checkpoint import load
from agent.asr.nemotron_choices import CHUNKS_MS, language
from agent.errors import TurnscopeError
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from tests.asr.nemotron_tools import stream, tiny_engine, tiny_file
from tests.tiny_models.nemotron import LANGUAGES, babble, build_nemotron


def refusal(source: Any, **settings: Any) -> str:
    with pytest.raises(TurnscopeError) as refused:
        NemotronEngine(source, clock=SystemClock(), **settings)
    sentence = str(refused.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def archive(path: Path, **members: bytes) -> Path:
    """A .nemo file with `model_config` and `model_weights`."""
    names = {"model_config": "model_config.yaml", "model_weights": "model_weights.ckpt"}
    with tarfile.open(path, "w") as out:
        for key, content in members.items():
            entry = tarfile.TarInfo(names[key])
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    return path


def config_of(path: Path) -> bytes:
    with tarfile.open(path) as whole:
        member = next(name for name in whole.getnames() if name.endswith("model_config.yaml"))
        config = whole.extractfile(member)
        assert config is not None
        return config.read()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone.nemo").startswith(f"There is no file {tmp_path / 'gone.nemo'}: fetch the model")
    assert refusal(tmp_path) == f"{tmp_path} is no file: give the path of a .nemo file."
    os.mkfifo(tmp_path / "pipe.nemo")
    for path in (Path("/dev/zero"), tmp_path / "pipe.nemo"):
        assert refusal(path) == f"{path} is no file: give the path of a .nemo file."


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "text.nemo").write_text("hello " * 1000)
    (tmp_path / "empty.nemo").touch()
    for name in ("text.nemo", "empty.nemo"):
        assert f"The file {tmp_path / name} is no .nemo archive, or not a whole one" in refusal(tmp_path / name)


def test_a_file_of_40_gb_that_is_no_archive_is_not_read_through(tmp_path: Path) -> None:
    path = tmp_path / "sparse.nemo"
    path.touch()
    os.truncate(path, 40 << 30)
    process = resource.getrusage(resource.RUSAGE_SELF)
    assert "it has no model_config.yaml and no model_weights.ckpt" in refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - process.ru_utime < 5  # all of it takes minutes


@pytest.mark.parametrize("part", [0.01, 0.3, 0.9])
def test_a_truncated_archive(tmp_path: Path, part: float) -> None:
    content = tiny_file().read_bytes()
    cut = tmp_path / "cut.nemo"
    cut.write_bytes(content[: int(len(content) * part)])
    assert "is no .nemo archive, or not a whole one" in refusal(cut)


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    assert "it has no model_weights.ckpt" in refusal(archive(tmp_path / "a.nemo", model_config=b"a: 1"))


def test_a_model_of_another_class(tmp_path: Path) -> None:
    for target, what in (
        ("nemo.collections.asr.models.ctc_bpe_models.EncDecCTCModelBPE", "is of the class EncDecCTCModelBPE"),
        ("nemo.collections.asr.models.no_such.Model", "no_such.Model, which the installed NeMo does not have: choose"),
        ("nemo.collections.asr.models.NoSuchModel", "NoSuchModel, which the installed NeMo does not have: choose"),
        ("nemo.utils.logging", "is of the class logging, which is no streaming transducer"),
        ("subprocess.Popen", "The model_config.yaml in"),
        ("os.system", "a.nemo names no model of NeMo; fetch"),
        ("", "names no model of NeMo; fetch"),
    ):
        file = archive(tmp_path / "a.nemo", model_config=f"target: {target}".encode(), model_weights=b"")
        assert what in refusal(file)


def test_a_config_that_is_none(tmp_path: Path) -> None:
    for config in (b"", b"[1, 2]"):
        assert "names no model of NeMo" in refusal(archive(tmp_path / "a.nemo", model_config=config, model_weights=b""))


def test_a_module_that_the_file_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "surprise.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    file = archive(tmp_path / "a.nemo", model_config=b"target: surprise.Model", model_weights=b"")
    assert "names no model of NeMo" in refusal(file)


def test_weights_that_are_damaged(tmp_path: Path) -> None:
    config = b"target: nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel"
    assert "cannot be loaded" in refusal(archive(tmp_path / "a.nemo", model_config=config, model_weights=b"x" * 99))
    file = tmp_path / "b.nemo"
    with tarfile.open(tiny_file()) as whole, tarfile.open(file, "w") as out:
        for member in whole:
            if member.isfile():
                content = whole.extractfile(member)
                assert content is not None
                damaged = member.name.endswith("model_weights.ckpt")
                out.addfile(member, io.BytesIO(b"x" * member.size) if damaged else content)
    assert refusal(file).startswith(f"The weights in {file} are damaged; fetch the model again")


def test_the_weights_are_never_unpacked_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[str] = []
    read = torch.load

    def watched(*given: Any, **named: Any) -> Any:
        seen.extend(sorted(path.name for path in tmp_path.rglob("*")))
        return read(*given, **named)

    monkeypatch.setattr(torch, "load", watched)
    load(tiny_file(), "cpu")
    assert "model_config.yaml" in seen and any(name.endswith("tokenizer.model") for name in seen)
    assert "model_weights.ckpt" not in seen
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_told_to_end_while_it_loads_leaves_nothing(tmp_path: Path) -> None:
    """The load runs on a thread, which the end of the process does not wait for."""
    program = (
        "import sys, threading, time, torch\n"
        "from pathlib import Path\n"
        "from agent.asr.nemotron_checkpoint import load\n"
        "from agent.cli.interruption import ending_at_once\n"
        "torch.load = lambda *_, **__: (print('loading', file=sys.__stdout__, flush=True), time.sleep(60))\n"
        "with ending_at_once():\n"
        "    threading.Thread(target=load, args=(Path(sys.argv[1]), 'cpu'), daemon=True).start()\n"
        "    time.sleep(120)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tiny_file())],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None and process.stdout.readline() == "loading\n"
    assert list(tmp_path.glob("turnscope-*/model_config.yaml"))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143 and not list(tmp_path.glob("turnscope-*"))


def test_a_temporary_folder_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """For which a fresh copy of the file does no good."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    sentence = refusal(tiny_file())
    assert sentence.startswith(f"The temporary folder {tempfile.gettempdir()} has no room for 0.")
    assert f" MB of the model {tiny_file()}" in sentence
    assert "TMPDIR" in sentence and "fetch" not in sentence


def test_no_temporary_folder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    file = tiny_file()
    monkeypatch.setattr(tempfile, "gettempdir", none)
    sentence = refusal(file)
    assert "there is none with room: free some, or let TMPDIR name" in sentence and "fetch" not in sentence


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory")]
)
def test_memory_that_is_short(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def short(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(torch, "load", short)
    sentence = refusal(tiny_file())
    assert sentence.startswith(f"There is not enough memory on cpu for the model {tiny_file()}: close what else")


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tarfile, "open", forbidden)
    assert refusal(tiny_file()) == f"The file {tiny_file()} may not be read: change its permissions."


def test_a_chunk_that_no_model_has() -> None:
    for chunk_ms in (0, 40, 100, 640, 2000, 10**9, -80):
        with pytest.raises(TurnscopeError, match=r"There is no chunk of .* ms: choose 80, 160, 320, 560 or 1120\."):
            tiny_engine(chunk_ms)


def test_a_chunk_that_this_model_has_not(tmp_path: Path) -> None:
    library = build_nemotron(tmp_path, att_context_size=[[70, 13], [70, 6], [70, 1], [70, 0]])
    sentence = refusal(library, name="older", chunk_ms=320)
    assert sentence == "The model older has no chunk of 320 ms: choose 80, 160, 560 or 1120."
    sound = babble(2.0)
    for chunk_ms in set(CHUNKS_MS) - {320}:
        engine = NemotronEngine(library, clock=SystemClock(), chunk_ms=chunk_ms)
        assert engine.attributes[v.ASR_CHUNK_S] == chunk_ms / 1000
        assert stream(engine, sound)[-1].encoded_s == pytest.approx(chunk_ms / 1000)


@pytest.mark.parametrize(
    ("encoder", "what"),
    [
        ({"att_context_style": "regular", "att_context_size": [56, 3]}, "no chunked attention"),
        ({"conv_context_size": None, "causal_downsampling": False}, "no causal convolutions"),
        ({"att_context_size": [[-1, 3], [-1, 0]]}, "it is no cache-aware streaming model"),
    ],
)
def test_a_model_that_is_no_streaming_one(tmp_path: Path, encoder: dict[str, Any], what: str) -> None:
    assert what in refusal(build_nemotron(tmp_path, **encoder))


def test_features_that_need_the_whole_sound(tmp_path: Path) -> None:
    library: Any = build_nemotron(tmp_path)
    library.preprocessor.featurizer.normalize = "per_feature"
    assert "features that depend on later sound" in refusal(library)


def test_a_language_that_the_model_does_not_know() -> None:
    for wanted in ("xx", "it-IT", "", "zh", "en-AU", "DE-AT"):
        with pytest.raises(
            TurnscopeError, match=r"does not know the language .*: choose auto, de-DE, en-GB, .* or zh-TW"
        ):
            tiny_engine(language=wanted)


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("en", "en-US"), ("EN-us", "en-US"), ("en-GB", "en-GB"), ("de", "de-DE"), ("fr", "fr-FR"), ("auto", "auto")],
)
def test_a_bare_language_where_it_is_clear_which(wanted: str, meant: str) -> None:
    assert language(LANGUAGES, wanted, "any") == meant


def test_a_prompt_model_whose_file_names_no_language(tmp_path: Path) -> None:
    library: Any = build_nemotron(tmp_path)
    library.cfg.model_defaults.prompt_dictionary = {}
    assert refusal(library, name="odd") == (
        "The model odd is told the language, but its file names none: choose another file."
    )


def test_another_language_than_english_without_prompts(tmp_path: Path) -> None:
    library = build_nemotron(tmp_path, prompted=False)
    assert refusal(library, name="plain", language="de") == "The model plain knows English (en) only, not 'de'."


def test_a_device_that_is_not_there() -> None:
    assert "There is no CUDA device 63" in refusal(tiny_file(), device="cuda:63")


PROGRAM = """
import logging, socket, sys, warnings
from pathlib import Path

def refuse(*_, **__):
    raise AssertionError("the network is not needed")

socket.socket.connect = socket.getaddrinfo = refuse
shown = warnings.showwarning

import numpy as np
from agent.asr.nemotron import NemotronEngine
from profiling.trace.clock import SystemClock

engine = NemotronEngine(Path(sys.argv[1]), clock=SystemClock(), threads=1)
engine.warm_up()
engine.open().finalize(np.random.default_rng(0).normal(0, 0.1, 30_000).astype(np.float32), lambda: False)
assert warnings.showwarning is shown and logging.root.manager.disable == 0 and not logging.root.handlers
"""


def test_loading_and_hearing_say_nothing_and_need_no_network(tmp_path: Path) -> None:
    """In a process of its own: importing NeMo is part of it."""
    root, work, home = Path(__file__).parents[2], tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tiny_file())],
        cwd=work,
        env={"PYTHONPATH": str(root), "PATH": "", "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(work.iterdir())
