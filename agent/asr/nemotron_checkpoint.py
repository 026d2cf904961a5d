"""Loads a transducer of NeMo from its .nemo file and refuses what is none."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agent import devices
from agent.asr.nemo_library import ASRModel, EncDecRNNTBPEModel, import_class_by_path, quiet
from agent.errors import TurnscopeError

_FETCH = "fetch the model again with `turnscope models fetch nemotron`"
_PARTS = {"model_config.yaml", "model_weights.ckpt"}


def load(path: Path, device: str) -> EncDecRNNTBPEModel:
    """The model in the file `path`, on a `device` (cpu, cuda, cuda:N), ready to infer.

    Raises TurnscopeError when the file or the device is missing, or the file is no whole .nemo archive of a transducer
    with subword tokens.
    """
    place = torch.device(devices.resolve(device))
    _require_archive(path)
    with quiet(), _explained(path):
        _require_transducer(path, ASRModel.restore_from(str(path), return_config=True))
        model: Any = ASRModel.restore_from(str(path), map_location=place)
        return model.eval()


def _require_archive(path: Path) -> None:
    if not path.is_file():
        raise TurnscopeError(f"There is no file {path}: fetch the model with `turnscope models fetch nemotron`.")
    try:
        with tarfile.open(path) as archive:
            parts = {Path(name).name for name in archive.getnames()}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TurnscopeError(f"The file {path} is no .nemo archive, or not a whole one; {_FETCH}.") from error
    if not parts >= _PARTS:
        raise TurnscopeError(
            f"The archive {path} is no .nemo model (it has no {' and no '.join(sorted(_PARTS - parts))}); {_FETCH}."
        )


def _require_transducer(path: Path, config: Any) -> None:
    kind = import_class_by_path(str(config.get("target")))
    if not issubclass(kind, EncDecRNNTBPEModel):
        raise TurnscopeError(
            f"The model {path} is of the class {kind.__name__}, which is no streaming transducer with subword tokens: "
            "choose a model such as nemotron."
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Whatever the library stumbles over in a file becomes a sentence."""
    try:
        yield
    except TurnscopeError:
        raise
    except torch.cuda.OutOfMemoryError as error:
        raise TurnscopeError(f"The GPU's memory does not hold the model {path}: free some, or use --device cpu.") from (
            error
        )
    except Exception as error:
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise TurnscopeError(f"The model {path} cannot be loaded ({reason}); {_FETCH}.") from error
