"""VoxCPM2 checkpoint directories: looked over by names and shapes, then loaded by the library.

The library takes what fits of a checkpoint and is silent about the rest, so a renamed tensor would leave random
weights in the model. Here every name and shape is compared with those of a model that the library builds from the same
config.json, without memory for its weights, before any weight is read.
"""

import importlib.util
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import LlamaTokenizerFast

from agent import devices
from agent.errors import TurnscopeError
from agent.pytorch import is_out_of_memory
from agent.quiet import quiet

with quiet():
    from voxcpm import VoxCPM
    from voxcpm.model import voxcpm2
    from voxcpm.model.utils import get_dtype
    from voxcpm.model.voxcpm2 import VoxCPM2Model, VoxCPMConfig
    from voxcpm.modules.audiovae import AudioVAEV2

ARCHITECTURE = "voxcpm2"
_MAIN_FILES = ("model.safetensors", "pytorch_model.bin")  # in the library's order of preference
_VAE_FILES = ("audiovae.safetensors", "audiovae.pth")
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TOKENIZER_FILES = ("tokenizer.json", _TOKENIZER_CONFIG)
_VAE_PREFIX = "audio_vae."
_MOST_LAYERS, _MOST_FRAMES, _MOST_POSITIONS = 256, 64, 1 << 20
_FETCH = "fetch the model again with `turnscope models fetch voxcpm2`"


class _TokenizerLoader:
    """Reads also the form in which the released tokenizer_config.json has `extra_special_tokens`: a list, where this
    version of transformers expects a mapping. What the list names is in tokenizer.json."""

    @staticmethod
    def from_pretrained(folder: str) -> LlamaTokenizerFast:
        config = json.loads((Path(folder) / _TOKENIZER_CONFIG).read_text(encoding="utf-8"))
        listed = isinstance(config.get("extra_special_tokens"), list)
        corrected: dict[str, Any] = {"extra_special_tokens": {}} if listed else {}
        try:
            return LlamaTokenizerFast.from_pretrained(folder, **corrected)
        except Exception as error:  # the libraries below raise their own and plain ones
            files = " and ".join(_TOKENIZER_FILES)
            raise TurnscopeError(f"The files {files} in {folder} describe no tokenizer; {_FETCH}.") from error


voxcpm2.tqdm = iter  # the library draws a progress bar for every phrase and has no switch for it
voxcpm2.LlamaTokenizerFast = _TokenizerLoader


def load(folder: Path, device: str, *, compiled: bool = False) -> VoxCPM2Model:
    """The model of a checkpoint directory: config.json, model.safetensors (or pytorch_model.bin), audiovae.safetensors
    or audiovae.pth, tokenizer.json, tokenizer_config.json.

    `device` is auto, cpu, cuda or cuda:N; `compiled` (torch.compile) needs exactly cuda. Raises TurnscopeError for a
    device that is not there and for a checkpoint that is not whole or not a VoxCPM2's.
    """
    device = _resolved(device, compiled)
    check(folder)
    try:
        with quiet(), _built_in(_check_json(folder / "config.json").get("dtype", "bfloat16")):
            voxcpm = VoxCPM.from_pretrained(str(folder), load_denoiser=False, optimize=compiled, device=device)
    except TurnscopeError:
        raise
    except Exception as error:  # the libraries below raise their own and plain ones
        if is_out_of_memory(error):
            raise TurnscopeError(
                f"There is not enough memory on {device} for the model {folder}: close what else runs there, or choose "
                "another device."
            ) from error
        raise TurnscopeError(f"The model {folder} cannot be loaded ({_first_line(error)}); {_FETCH}.") from error
    model = cast(VoxCPM2Model, voxcpm.tts_model)
    if compiled and not hasattr(model, "_feat_encoder_raw"):
        raise TurnscopeError("VoxCPM2 could not be compiled here: run it uncompiled.")
    return model


@contextmanager
def _built_in(dtype: str) -> Iterator[None]:
    """The library builds a model in PyTorch's default type before it converts it: built in the checkpoint's own, it
    takes half the memory. The VAE becomes float32 before its weights are read."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(get_dtype(dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def check(folder: Path) -> None:
    """Raise TurnscopeError unless `folder` holds a whole VoxCPM2 checkpoint. Reads no weights."""
    if not folder.exists():
        raise TurnscopeError(
            f"The model folder {folder} does not exist; `turnscope models` shows what is missing and how to fetch it."
        )
    if not folder.is_dir():
        raise TurnscopeError(f"{folder} is no folder: give the path of a folder with a VoxCPM2 checkpoint.")
    expected = _shapes(_skeleton_of(folder))
    for name in _TOKENIZER_FILES:
        _check_json(folder / name)
    main, vae = weight_files(folder)
    _compare(main, _stored(main), {name: e for name, e in expected.items() if not name.startswith(_VAE_PREFIX)})
    of_vae = {name.removeprefix(_VAE_PREFIX): e for name, e in expected.items() if name.startswith(_VAE_PREFIX)}
    _compare(vae, _stored(vae), of_vae)


def skeleton(config: Mapping[str, Any]) -> VoxCPM2Model:
    """The model that the library builds from the contents of a config.json, on the meta device: names and shapes, no
    weights. Raises ValueError, and what the library does, for what is no such config."""
    settings = VoxCPMConfig.model_validate(config)
    _require_bounds(settings)
    settings.max_length = 1  # the KV cache is not on the meta device
    vae_settings: Any = settings.audio_vae_config  # None: the library's defaults
    no_tokenizer: Any = _NoTokenizer()
    with quiet(), torch.device("meta"):
        return VoxCPM2Model(settings, no_tokenizer, AudioVAEV2(config=vae_settings), device="cpu")


def _require_bounds(settings: VoxCPMConfig) -> None:
    """Of what a layer is built for, or a loop runs over; other numbers show in the weights' shapes."""
    bounds = {
        "patch_size": (settings.patch_size, _MOST_FRAMES),
        "max_length": (settings.max_length, _MOST_POSITIONS),
        "residual_lm_num_layers": (settings.residual_lm_num_layers, _MOST_LAYERS),
        "lm_config.num_hidden_layers": (settings.lm_config.num_hidden_layers, _MOST_LAYERS),
        "encoder_config.num_layers": (settings.encoder_config.num_layers, _MOST_LAYERS),
        "dit_config.num_layers": (settings.dit_config.num_layers, _MOST_LAYERS),
    }
    for name, (value, most) in bounds.items():
        if not 1 <= value <= most:
            raise ValueError(f"{name} is {value}, which must be from 1 to {most}")


class _NoTokenizer:
    vocab: Mapping[str, int] = {}


def _resolved(device: str, compiled: bool) -> str:
    device = devices.resolve(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise TurnscopeError(f"VoxCPM2 cannot run on the device {device!r}: choose cpu, cuda, or cuda:0 and so on.")
    if compiled and device != "cuda":
        raise TurnscopeError(f"VoxCPM2 can be compiled only for the device cuda, not {device}: set one or the other.")
    if compiled and importlib.util.find_spec("triton") is None:
        raise TurnscopeError("VoxCPM2 can be compiled only with the package triton: install it, or run uncompiled.")
    return device


def _skeleton_of(folder: Path) -> VoxCPM2Model:
    path = folder / "config.json"
    config = _check_json(path)
    architecture = config.get("architecture")
    if not isinstance(architecture, str) or architecture.lower() != ARCHITECTURE:
        raise TurnscopeError(f"{path} describes the architecture {architecture!r}, not {ARCHITECTURE}: give a VoxCPM2.")
    try:
        return skeleton(config)
    except (ValueError, TypeError, RuntimeError, AssertionError, ZeroDivisionError) as error:
        raise TurnscopeError(f"{path} does not describe a VoxCPM2 model ({_first_line(error)}); {_FETCH}.") from error


def _check_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise _missing(path)
    if not path.is_file():  # to read a pipe would wait for its writer
        raise TurnscopeError(f"{path} is no file; {_FETCH}.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TurnscopeError(f"The file {path} cannot be read ({error.strerror}); {_FETCH}.") from error
    except ValueError as error:
        raise TurnscopeError(f"The file {path} is no JSON file; {_FETCH}.") from error
    if not isinstance(content, dict):
        raise TurnscopeError(f"The file {path} holds no JSON object; {_FETCH}.")
    return content


def weight_files(folder: Path) -> tuple[Path, Path]:
    """The model's and the VAE's, as the library chooses them. Raises TurnscopeError where one is missing."""
    return _present(folder, _MAIN_FILES), _present(folder, _VAE_FILES)


def _present(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise _missing(folder / names[0])


def _missing(path: Path) -> TurnscopeError:
    return TurnscopeError(
        f"The model file {path} does not exist; `turnscope models` shows what is missing and how to fetch it."
    )


def _shapes(model: nn.Module) -> dict[str, tuple[tuple[int, ...], bool]]:
    """By name: the shape, and whether a checkpoint must hold it. Buffers are computed from the config."""
    parameters = {name for name, _ in model.named_parameters()}
    return {name: (tuple(tensor.shape), name in parameters) for name, tensor in model.state_dict().items()}


def _stored(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a file, by name; their values stay on the disk."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        with quiet():  # it warns of what it does not trust
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        tensors = content.get("state_dict", content)
        return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    except SafetensorError as error:
        raise TurnscopeError(f"The file {path} is cut short or no safetensors file; {_FETCH}.") from error
    except Exception as error:  # a damaged pickle raises almost anything
        raise TurnscopeError(f"The file {path} is damaged or holds no weights; {_FETCH}.") from error


def _compare(
    path: Path, stored: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[tuple[int, ...], bool]]
) -> None:
    lacking = [name for name, (_, required) in expected.items() if required and name not in stored]
    unknown = [name for name in stored if name not in expected]
    if lacking or unknown:
        told = [f"it lacks {_named(lacking)}"] if lacking else []
        told += [f"it holds the unknown {_named(unknown)}"] if unknown else []
        raise TurnscopeError(f"The weights in {path} are not those of its config.json: {' and '.join(told)}; {_FETCH}.")
    for name, shape in stored.items():
        if shape != expected[name][0]:
            raise TurnscopeError(
                f"The weights in {path} are not those of its config.json: {name} has the shape {_by(shape)}, not "
                f"{_by(expected[name][0])}; {_FETCH}."
            )


def _named(names: list[str]) -> str:
    return f"tensor {names[0]}" if len(names) == 1 else f"tensor {names[0]} ({len(names)} in all)"


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".:") if lines else type(error).__name__
