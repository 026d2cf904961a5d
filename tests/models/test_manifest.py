"""The real manifest, what can be asked of it, and what importing the store costs."""

import re
import subprocess
import sys

import pytest
from rich.console import Console

from agent import models
from agent.errors import TurnscopeError
from agent.models import manifest
from agent.models.convert import CONVERTER_NEEDS, CONVERTER_VERSIONS
from tests.models.store_in import Sandbox, promise


def test_every_model_says_all_that_is_needed_to_trust_it() -> None:
    for model in manifest.models().values():
        assert model.licence and model.description and model.files
        assert model.convert is None or model.convert in CONVERTER_VERSIONS.keys() & CONVERTER_NEEDS.keys()
        assert model.convert or all(file.keep for file in model.files)
        for file in model.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256) and file.size_bytes > 0
            assert re.fullmatch(r"[\w.-]+", file.name)
        assert model.scratch_bytes >= model.download_bytes


def test_the_default_pipeline_has_one_model_per_stage() -> None:
    stages = [manifest.find(name).stage for name in models.embedded_models()]
    assert sorted(stages) == ["asr", "llm", "tts", "turn", "vad"]


@pytest.mark.parametrize(
    ("name", "stage", "licence", "files"),
    [
        ("nemotron", "asr", "OpenMDW-1.1", {"model.nemo"}),
        ("gemma-4-12b", "llm", "Apache-2.0", {"model.gguf"}),
        (
            "voxcpm2",
            "tts",
            "Apache-2.0",
            {"config.json", "model.safetensors", "audiovae.pth", "tokenizer.json", "tokenizer_config.json"}
            | {"special_tokens_map.json"},
        ),
    ],
)
def test_the_big_models_come_from_one_commit_with_the_names_their_engines_load(
    name: str, stage: str, licence: str, files: set[str]
) -> None:
    model = manifest.find(name)
    assert (model.stage, model.licence, model.embedded) == (stage, licence, False)
    assert {file.name for file in model.files} == files
    assert isinstance(model.source, manifest.HubSource) and re.fullmatch(r"[0-9a-f]{40}", model.source.revision)
    assert model.download_bytes == sum(file.size_bytes for file in model.files)
    assert model.download_bytes < model.stored_bytes < model.scratch_bytes


def test_the_embedded_models_are_here_and_whole() -> None:
    for name in models.embedded_models():
        folder = models.locate(name)
        for file, stored in models.stored_files(name).items():
            assert (folder / file).stat().st_size == stored.size_bytes


def test_sizes_that_are_promised_are_about_right() -> None:
    for name in models.embedded_models():
        stored_bytes = sum(file.size_bytes for file in models.stored_files(name).values())
        assert stored_bytes == pytest.approx(manifest.find(name).stored_bytes, rel=0.02)


def test_the_table_says_what_is_here(sandbox: Sandbox) -> None:
    sandbox.add_wheel_model("first-one")
    sandbox.add_wheel_model("second-one")
    sandbox.add(
        "hub-one", {"kind": "hub", "repository": "org/repo", "revision": "0123456789ab"}, [promise("a", "a", b"a")]
    )
    models.fetch(["first-one", "second-one"], Console(quiet=True))
    (models.locate("second-one") / "weights.bin").unlink()
    assert [row.present for row in models.list_models()] == ["yes", "damaged", "no"]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(models.models_table())
    lines = capture.get().splitlines()
    assert len(lines) == 4
    assert "wheel-of-first-one 1.0" in lines[1] and "MIT" in lines[1] and "1.0 MB" in lines[1]
    assert "org/repo@01234567" in lines[3]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_has_every_model_and_cuts_nothing_off(width: int) -> None:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(models.models_table())
    lines = capture.get().splitlines()
    assert [line.split()[0] for line in lines[1:] if line[0] != " "] == list(manifest.models())
    sources = "".join(line[lines[0].index("source") :].strip() for line in lines)
    assert all(str(model.source) in sources for model in manifest.models().values())


def test_an_unknown_model_is_one_sentence() -> None:
    with pytest.raises(TurnscopeError, match=r"no model called 'whisper'; the known ones are .*moonshine-base-en"):
        models.locate("whisper")


def test_importing_the_store_loads_nothing_heavy() -> None:
    code = "import sys, agent.models; agent.models.embedded_models(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "onnx", "onnxruntime", "llama_cpp", "rich", "urllib.request", "subprocess"} & set(loaded)
