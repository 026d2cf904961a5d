"""VoxCPM2 checkpoints: what is not whole or not one is refused in a sentence; what is loads without a word."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

from agent import devices
from agent.errors import TurnscopeError
from agent.quiet import quiet
from agent.tts import voxcpm_checkpoint
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import VoxCPM, check, load
from tests.fakes.ticking import TickingClock
from tests.tiny_models.voxcpm import TINY, write_voxcpm

MAIN, VAE = "model.safetensors", "audiovae.pth"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voxcpm(tmp_path_factory.mktemp("whole") / "tiny-voice")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may change."""
    return shutil.copytree(whole, tmp_path / "tiny-voice")


def main_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / MAIN)
    change(tensors)
    save_file(tensors, folder / MAIN)


def vae_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    content = torch.load(folder / VAE, weights_only=True)
    change(content["state_dict"])
    torch.save(content, folder / VAE)


def configured(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def cut(path: Path, bytes_less: int = 1000) -> None:
    path.write_bytes(path.read_bytes()[:-bytes_less])


def pipe(path: Path, make: Callable[..., None] = lambda _, path: os.mkfifo(path)) -> None:
    """In the place of a file, or what `make` (from a name, at a path) makes."""
    path.unlink()
    make(path.name, path)


def renamed(folder: Path) -> None:
    main_tensors(folder, lambda all_: all_.update({"x.stop_head.weight": all_.pop("stop_head.weight")}))


def layer_missing(folder: Path) -> None:
    main_tensors(folder, lambda all_: [all_.pop(name) for name in list(all_) if ".layers.1." in name])


def foreign(folder: Path) -> None:
    main_tensors(folder, lambda all_: all_.update({"lora_A": torch.zeros(2)}))


def misshapen(folder: Path) -> None:
    main_tensors(folder, lambda all_: all_.update({"stop_head.weight": torch.zeros(3, 64)}))


def vae_renamed(folder: Path) -> None:
    vae_tensors(folder, lambda all_: all_.update({"decoder.new": all_.pop("decoder.model.0.bias")}))


def vae_misshapen(folder: Path) -> None:
    vae_tensors(folder, lambda all_: all_.update({"encoder.fc_mu.bias": torch.zeros(5)}))


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "renamed": (
        renamed,
        f"{MAIN} .* lacks tensor stop_head.weight and it holds the unknown tensor x.stop_head.weight;",
    ),
    "a layer missing": (layer_missing, r"it lacks tensor base_lm.layers.1.\S+ \(\d+ in all\); fetch"),
    "a tensor more": (foreign, "it holds the unknown tensor lora_A; fetch"),
    "a wrong shape": (misshapen, "stop_head.weight has the shape 3 x 64, not 2 x 64"),
    "renamed in the VAE": (vae_renamed, f"{VAE} .* lacks tensor decoder.model.0.bias and it holds .* decoder.new;"),
    "a wrong shape in the VAE": (vae_misshapen, f"{VAE} .* encoder.fc_mu.bias has the shape 5, not 64"),
    "another config": (lambda f: configured(f, residual_lm_num_layers=3), "it lacks tensor residual_lm.layers.2"),
    "no folder": (lambda f: f.rename(f.parent / "elsewhere"), "The model folder .* does not exist; `turnscope models`"),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json does not exist"),
    "no weights": (lambda f: (f / MAIN).unlink(), f"{MAIN} does not exist"),
    "no VAE": (lambda f: (f / VAE).unlink(), "audiovae.safetensors does not exist"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json does not exist"),
    "no tokenizer config": (lambda f: (f / "tokenizer_config.json").unlink(), "tokenizer_config.json does not exist"),
    "weights cut short": (lambda f: cut(f / MAIN), f"{MAIN} is cut short or no safetensors file"),
    "empty weights": (lambda f: (f / MAIN).write_bytes(b""), f"{MAIN} is cut short or no safetensors file"),
    "VAE cut short": (lambda f: cut(f / VAE), f"{VAE} is damaged or holds no weights"),
    "VAE no pickle": (lambda f: (f / VAE).write_bytes(b"abc" * 99), f"{VAE} is damaged or holds no weights"),
    "VAE a list": (lambda f: torch.save([1, 2], f / VAE), f"{VAE} is damaged or holds no weights"),
    "config cut short": (lambda f: cut(f / "config.json", 9), "config.json is no JSON file"),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), "config.json holds no JSON object"),
    "config of another kind": (lambda f: configured(f, lm_config=None), "config.json does not describe a VoxCPM2"),
    "impossible config": (lambda f: configured(f, patch_size="many"), "config.json does not describe a VoxCPM2"),
    "an older VoxCPM": (lambda f: configured(f, architecture="voxcpm"), "architecture 'voxcpm', not voxcpm2"),
    "no architecture": (lambda f: configured(f, architecture=None), "architecture None, not voxcpm2"),
    "tokenizer cut short": (lambda f: cut(f / "tokenizer.json"), "tokenizer.json is no JSON file"),
    "tokenizer of no kind": (
        lambda f: (f / "tokenizer.json").write_text("{}"),
        "The files tokenizer.json and tokenizer_config.json in .* describe no tokenizer; fetch",
    ),
    "a file for a folder": (lambda f: (f.rename(f.parent / "elsewhere"), f.touch()), "tiny-voice is no folder: give"),
    "a pipe for a config": (lambda f: pipe(f / "config.json"), "config.json is no file; fetch"),
    "a pipe for a tokenizer": (lambda f: pipe(f / "tokenizer.json"), "tokenizer.json is no file; fetch"),
    "a pipe for weights": (lambda f: pipe(f / MAIN), f"{MAIN} does not exist"),
    "a link to itself": (lambda f: pipe(f / "config.json", os.symlink), "config.json does not exist"),
    "patches of nothing": (lambda f: configured(f, patch_size=0), r"\(patch_size is 0, which must be from 1 to 64\)"),
    "negative patches": (lambda f: configured(f, patch_size=-1), r"\(patch_size is -1, which must be from 1 to 64\)"),
    "a million layers": (
        lambda f: configured(f, residual_lm_num_layers=10**6),
        r"\(residual_lm_num_layers is 1000000, which must be from 1 to 256\)",
    ),
    "no positions": (lambda f: configured(f, max_length=0), r"\(max_length is 0, which must be from 1 to 1048576\)"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_checkpoint_that_is_not_one_is_refused(folder: Path, kind: str) -> None:
    spoil, sentence = BAD[kind]
    spoil(folder)
    with pytest.raises(TurnscopeError, match=sentence) as refusal:
        VoxCpmEngine(folder, clock=TickingClock())
    told = str(refusal.value)
    assert "\n" not in told and told.endswith(".") and str(folder) in told


def test_a_foreign_pickle_is_refused_without_a_warning(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    (folder / VAE).write_bytes(pickle.dumps(print))
    with pytest.raises(TurnscopeError, match=f"{VAE} is damaged or holds no weights"):
        check(folder)
    assert not recwarn.list


def test_the_check_reads_no_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed(folder)
    monkeypatch.setattr(voxcpm_checkpoint, "VoxCPM", None)
    with pytest.raises(TurnscopeError, match=r"lacks tensor stop_head\.weight"):
        load(folder, "cpu")


def test_all_that_is_stored_is_loaded(folder: Path) -> None:
    loaded = load(folder, "cpu").state_dict()
    vae = torch.load(folder / VAE, weights_only=True)["state_dict"]
    stored = {**load_file(folder / MAIN), **{f"audio_vae.{name}": tensor for name, tensor in vae.items()}}
    assert loaded.keys() == stored.keys() and all(torch.equal(loaded[name], stored[name]) for name in stored)


def test_the_other_file_formats_load_too(folder: Path) -> None:
    save_file(torch.load(folder / VAE, weights_only=True)["state_dict"], folder / "audiovae.safetensors")
    torch.save(load_file(folder / MAIN), folder / "pytorch_model.bin")
    before = load(folder, "cpu").state_dict()
    (folder / VAE).unlink(), (folder / MAIN).unlink()
    after = load(folder, "cpu").state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_buffer_that_the_config_gives_may_be_missing(folder: Path) -> None:
    vae_tensors(folder, lambda all_: all_.pop("decoder.sr_bin_boundaries"))
    check(folder)


def test_the_builder_is_deterministic(tmp_path: Path) -> None:
    one, same = (write_voxcpm(tmp_path / name) for name in "ab")
    for name in (MAIN, "tokenizer.json", "config.json"):
        assert (one / name).read_bytes() == (same / name).read_bytes()


@pytest.mark.parametrize(
    ("device", "compiled", "sentence"),
    [
        ("mps", False, "cannot run on the device 'mps': choose cpu, cuda, or cuda:0"),
        ("cpu", True, "can be compiled only for the device cuda, not cpu"),
        ("cuda:0", True, "can be compiled only for the device cuda, not cuda:0"),
        ("cuda", True, "only with the package triton"),
    ],
)
def test_devices_that_do_not_serve_are_refused(
    folder: Path, device: str, compiled: bool, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: 1)
    monkeypatch.setattr(devices, "torch_knows_cuda", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TurnscopeError, match=sentence):
        VoxCpmEngine(folder, clock=TickingClock(), device=device, compiled=compiled)


def test_a_missing_cuda_device_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: 0)
    with pytest.raises(TurnscopeError, match="There is no CUDA device 0"):
        VoxCpmEngine(folder, clock=TickingClock(), device="cuda")


MARKERS = ["<|audio_start|>", "<|audio_end|>"]


def released_tokenizer(folder: Path) -> None:
    """A class of its own, and its special tokens as a list."""
    path = folder / "tokenizer_config.json"
    own = {"tokenizer_class": "VoxCPM2Tokenizer", "auto_map": {"AutoTokenizer": ["own.VoxCPM2Tokenizer", None]}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **own, "extra_special_tokens": MARKERS}))


def test_the_released_tokenizer_reads_as_the_plain_one(whole: Path, folder: Path) -> None:
    released_tokenizer(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    text = f"hello you {MARKERS[0]} what is that {MARKERS[1]} 你好"
    plain, released = (load(one, "cpu").text_tokenizer(text) for one in (whole, folder))
    assert released == plain and plain.count(101) == plain.count(102) == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_special_tokens_by_name_stay(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra_special_tokens": {"audio_token": MARKERS[0]}}))
    assert load(folder, "cpu").text_tokenizer.tokenizer.audio_token == MARKERS[0]


def test_memory_that_is_short(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(voxcpm_checkpoint.VoxCPM, "from_pretrained", short)
    with pytest.raises(TurnscopeError, match=r"not enough memory on cpu for the model .*: close what else"):
        load(folder, "cpu")


SPEAK = """
import socket
import sys
from pathlib import Path

def refuse(*_: object) -> None:
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = refuse
from agent.tts.voxcpm import VoxCpmEngine
from profiling.trace.clock import SystemClock

folder, wav = map(Path, sys.argv[1:])
engine = VoxCpmEngine(folder, clock=SystemClock(), threads=1, diffusion_steps=4, reference_wav=wav)
engine.warm_up()
assert len(list(engine.synthesise("hello there", lambda: False))) == 5
"""


def test_nothing_is_printed_and_no_network_is_used(folder: Path) -> None:
    """In a process of its own, imports included, and with a tokenizer_config.json of the released form."""
    released_tokenizer(folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    soundfile.write(folder / "voice.wav", np.sin(np.arange(4000) / 20), 16_000)
    command = [sys.executable, "-c", SPEAK, str(folder), str(folder / "voice.wav")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_16_bit_model_is_what_the_library_loads_by_itself_to_the_bit(tmp_path: Path) -> None:
    folder = write_voxcpm(tmp_path / "half", replace(TINY, dtype="bfloat16"))
    with quiet():
        expected = VoxCPM.from_pretrained(str(folder), load_denoiser=False, optimize=False, device="cpu").tts_model

    loaded = load(folder, "cpu")

    assert torch.get_default_dtype() == torch.float32
    assert loaded.base_lm.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16
    assert all(weight.dtype == torch.float32 for weight in loaded.audio_vae.parameters())
    theirs = {**dict(expected.named_parameters()), **dict(expected.named_buffers())}
    ours = {**dict(loaded.named_parameters()), **dict(loaded.named_buffers())}
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert all(ours[name].dtype == theirs[name].dtype for name in ours)


def test_an_unknown_number_type_is_refused(folder: Path) -> None:
    configured(folder, dtype="float99")
    with pytest.raises(TurnscopeError, match="float99"):
        load(folder, "cpu")
    assert torch.get_default_dtype() == torch.float32
