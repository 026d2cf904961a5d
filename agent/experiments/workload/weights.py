"""The names and shapes of a model's weights, read from its files; the values stay on the disk."""

import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.llm.gguf_header import GgufHeader
from profiling.workload import Weight

_ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4}  # safetensors' names


def of_nemo(path: Path) -> list[Weight]:
    import torch

    with tarfile.open(path, "r:") as archive:
        tensors: dict[str, Any] = torch.load(_member(archive, ".ckpt"), map_location="meta", weights_only=True)
    return _in_order(Weight(name, tuple(t.shape), t.element_size()) for name, t in tensors.items())


def nemo_config(path: Path) -> dict[str, Any]:
    """The contents of a .nemo file's model_config.yaml."""
    import yaml

    with tarfile.open(path, "r:") as archive:
        return yaml.safe_load(_member(archive, "model_config.yaml"))


def of_voxcpm(folder: Path) -> list[Weight]:
    """Those of the VAE begin with `audio_vae.`, as in the library's model."""
    from agent.tts.voxcpm_checkpoint import weight_files

    main, vae = weight_files(folder)
    return _in_order([*_of_file(main, ""), *_of_file(vae, "audio_vae.")])


def _of_file(path: Path, prefix: str) -> list[Weight]:
    import torch
    from safetensors import safe_open

    if path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return [Weight(prefix + n, tuple(s.get_shape()), _ELEMENT_BYTES[s.get_dtype()]) for n, s in slices.items()]
    content = torch.load(path, map_location="meta", weights_only=True)
    tensors = content.get("state_dict", content)
    return [Weight(prefix + name, tuple(t.shape), t.element_size()) for name, t in tensors.items()]


def of_gguf(header: GgufHeader) -> list[Weight]:
    """Shapes with the length of a row last; the bytes of an element of a blocked format are a block's share."""
    found: list[Weight] = []
    for tensor in header.tensors:
        elements = Weight(tensor.name, tensor.shape, 0).elements
        found.append(Weight(tensor.name, tensor.shape[::-1], (tensor.bytes or 0) / max(1, elements)))
    return found


def _member(archive: tarfile.TarFile, end: str) -> Any:
    return archive.extractfile(next(name for name in archive.getnames() if name.endswith(end)))


def _in_order(weights: Iterable[Weight]) -> list[Weight]:
    """By name, numbers in it as numbers: the order in which a model's layers follow each other."""
    return sorted(weights, key=lambda weight: [(int(n or 0), s) for n, s in re.findall(r"(\d+)|(\D+)", weight.name)])
