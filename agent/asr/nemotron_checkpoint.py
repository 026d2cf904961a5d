"""Loads a transducer of NeMo from its .nemo file and refuses what is none."""

import errno
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agent import devices
from agent.asr.nemo_library import ASRModel, EncDecRNNTBPEModel, import_class_by_path, quiet
from agent.errors import TurnscopeError
from agent.pytorch import is_out_of_memory

_FETCH = "fetch the model again with `turnscope models fetch nemotron`"
_PARTS = {"model_config.yaml", "model_weights.ckpt"}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def load(path: Path, device: str) -> EncDecRNNTBPEModel:
    """The model in the file `path`, on a `device` (cpu, cuda, cuda:N), ready to infer.

    The library unpacks it into the system's temporary folder. Raises TurnscopeError when the file or the device is
    missing, when memory or that folder does not hold the model, and when the file is no whole .nemo archive of a
    transducer with subword tokens.
    """
    place = torch.device(devices.resolve(device))
    _require_archive(path)
    with quiet(), _explained(path, device, _temporary_folder()):
        _require_transducer(path, ASRModel.restore_from(str(path), return_config=True))
        model: Any = ASRModel.restore_from(str(path), map_location=place)
        return model.eval()


def _require_archive(path: Path) -> None:
    if not path.is_file():
        raise TurnscopeError(f"There is no file {path}: fetch the model with `turnscope models fetch nemotron`.")
    try:
        with tarfile.open(path) as archive:
            parts = {Path(name).name for name in archive.getnames()}
    except PermissionError as error:
        raise TurnscopeError(f"The file {path} may not be read: change its permissions.") from error
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


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise TurnscopeError(
            "A model is unpacked into the temporary folder, and there is none with room: free some, or let TMPDIR name "
            "another folder."
        ) from error


@contextmanager
def _explained(path: Path, device: str, temporary: str) -> Iterator[None]:
    """Whatever the library stumbles over becomes a sentence: about memory and disk, or else about the file."""
    try:
        yield
    except TurnscopeError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise TurnscopeError(
                f"There is not enough memory on {device} for the model {path}: close what else runs there, or choose "
                "another device."
            ) from error
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise TurnscopeError(
                f"The temporary folder {temporary} has no room for the model {path}, which is unpacked there "
                f"({path.stat().st_size / 1e9:.1f} GB): free some, or let TMPDIR name another folder."
            ) from error
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise TurnscopeError(f"The model {path} cannot be loaded ({reason}); {_FETCH}.") from error
