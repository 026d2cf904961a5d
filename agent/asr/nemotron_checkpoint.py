"""Loads a transducer of NeMo from its .nemo file and refuses what is none."""

import errno
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import torch
from omegaconf import DictConfig

from agent import devices
from agent.asr.nemo_library import ASRModel, EncDecRNNTBPEModel, SaveRestoreConnector, import_class_by_path, quiet
from agent.errors import TurnscopeError
from agent.pytorch import is_out_of_memory
from agent.temporary import temporary_folder

_FETCH = "fetch the model again with `turnscope models fetch nemotron`"
_CONFIG, _WEIGHTS = "model_config.yaml", "model_weights.ckpt"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def load(path: Path, device: str) -> EncDecRNNTBPEModel:
    """The model in the file `path`, on a `device` (cpu, cuda, cuda:N), ready to infer.

    What the archive holds beside the weights is unpacked into the system's temporary folder for as long as it takes.
    Raises TurnscopeError when the file or the device is missing, when memory or that folder does not hold the model,
    and when the file is no whole .nemo archive of a transducer with subword tokens.
    """
    place = torch.device(devices.resolve(device))
    with quiet(), _explained(path, device), _connected(path) as connector:
        config = ASRModel.restore_from(str(path), return_config=True, save_restore_connector=connector)
        _require_transducer(path, config)
        model: Any = ASRModel.restore_from(str(path), map_location=place, save_restore_connector=connector)
        model._save_restore_connector = SaveRestoreConnector()
        return model.eval()


class _Connector(SaveRestoreConnector):
    """Restores from a folder that holds an archive's files, the weights aside: those are read where they lie."""

    def __init__(self, path: Path, folder: Path, weights: IO[bytes]) -> None:
        super().__init__()
        self.model_extracted_dir = str(folder)
        self._path = path
        self._weights = weights

    def _load_state_dict_from_disk(  # pyright: ignore[reportIncompatibleMethodOverride]  # the library's is static
        self, model_weights: str, map_location: Any = "cpu"
    ) -> Any:
        try:
            return torch.load(self._weights, map_location=map_location)
        except Exception as error:  # a damaged pickle raises almost anything
            if is_out_of_memory(error):
                raise
            raise TurnscopeError(f"The weights in {self._path} are damaged; {_FETCH}.") from error


@contextmanager
def _connected(path: Path) -> Iterator[_Connector]:
    with ExitStack() as opened:
        archive, members = opened.enter_context(_archive(path))
        folder = opened.enter_context(_folder())
        _unpack(path, archive, {name: member for name, member in members.items() if name != _WEIGHTS}, folder)
        try:
            yield _Connector(path, folder, _content(archive, members[_WEIGHTS]))
        finally:
            ASRModel.update_save_restore_connector(SaveRestoreConnector())  # the library's class keeps the last one


@contextmanager
def _archive(path: Path) -> Iterator[tuple[tarfile.TarFile, dict[str, tarfile.TarInfo]]]:
    """The open archive and its files by name."""
    if not path.exists():
        raise TurnscopeError(f"There is no file {path}: fetch the model with `turnscope models fetch nemotron`.")
    if not path.is_file():
        raise TurnscopeError(f"{path} is no file: give the path of a .nemo file.")
    with ExitStack() as opened:
        try:
            archive = opened.enter_context(tarfile.open(path, "r:"))
            members = {PurePosixPath(member.name).name: member for member in archive.getmembers() if _is_file(member)}
        except PermissionError as error:
            raise TurnscopeError(f"The file {path} may not be read: change its permissions.") from error
        except (tarfile.TarError, EOFError, OSError) as error:
            raise TurnscopeError(f"The file {path} is no .nemo archive, or not a whole one; {_FETCH}.") from error
        if missing := sorted({_CONFIG, _WEIGHTS} - members.keys()):
            raise TurnscopeError(
                f"The archive {path} is no .nemo model (it has no {' and no '.join(missing)}); {_FETCH}."
            )
        yield archive, members


def _is_file(member: tarfile.TarInfo) -> bool:
    """Whether it is a file at the archive's top, where the library looks for everything."""
    return member.isfile() and len(PurePosixPath(member.name).parts) == 1


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None  # since it is a file
    return content


@contextmanager
def _folder() -> Iterator[Path]:
    with ExitStack() as opened:
        try:
            folder = opened.enter_context(temporary_folder())
        except OSError as error:
            raise TurnscopeError(
                "Parts of a model are unpacked into the temporary folder, and there is none with room: free some, or "
                "let TMPDIR name another folder."
            ) from error
        yield folder


def _unpack(path: Path, archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo], folder: Path) -> None:
    try:
        for name, member in members.items():
            with (folder / name).open("xb") as file:
                shutil.copyfileobj(_content(archive, member), file)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        size_bytes = sum(member.size for member in members.values())
        raise TurnscopeError(
            f"The temporary folder {folder.parent} has no room for {size_bytes / 1e6:.1f} MB of the model {path}, "
            "which are unpacked there: free some, or let TMPDIR name another folder."
        ) from error


def _require_transducer(path: Path, config: Any) -> None:
    target = str(config.get("target")) if isinstance(config, DictConfig) else ""
    if not target.startswith("nemo."):  # to import it would run whatever it names
        raise TurnscopeError(f"The {_CONFIG} in {path} names no model of NeMo; {_FETCH}.")
    try:
        kind = import_class_by_path(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise TurnscopeError(
            f"The model {path} is of the class {target}, which the installed NeMo does not have: choose a model such "
            "as nemotron."
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, EncDecRNNTBPEModel)):
        raise TurnscopeError(
            f"The model {path} is of the class {target.rpartition('.')[2]}, which is no streaming transducer with "
            "subword tokens: choose a model such as nemotron."
        )


@contextmanager
def _explained(path: Path, device: str) -> Iterator[None]:
    """Whatever the library stumbles over becomes a sentence: about memory, or else about the file."""
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
        reason = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".:")
        raise TurnscopeError(f"The model {path} cannot be loaded ({reason}); {_FETCH}.") from error
