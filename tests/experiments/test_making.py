"""Made files: once, whole, and nothing left of an interruption."""

import resource
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agent.errors import TurnscopeError
from agent.experiments.full_size.making import Recipe, find, make
from tests.experiments import tiny


@dataclass(frozen=True)
class Shape:
    size: int = 3


@pytest.fixture
def cache(tmp_path: Path):
    with tiny.own_cache(tmp_path) as cache:
        yield cache


def recipe(shape: Shape = Shape(), version: int = 1, fails: BaseException | None = None) -> Recipe:
    def write(folder: Path) -> None:
        (folder / "weights").write_bytes(b"x" * shape.size)
        if fails is not None:
            raise fails

    return Recipe("thing", shape, version, shape.size, write, disk_bytes=shape.size)


def test_it_is_made_once(cache: tiny.Cache) -> None:
    first = make(recipe(), pytest.fail)
    assert first.files == {"weights": 3} and first.made_s >= 0
    again = make(recipe(fails=AssertionError("made again")), pytest.fail)
    assert again == first == find(recipe())


def test_another_shape_or_version_is_another_thing(cache: tiny.Cache) -> None:
    folders = {make(one, pytest.fail).folder for one in (recipe(), recipe(Shape(4)), recipe(version=2))}
    assert len(folders) == 3


@pytest.mark.parametrize("stopped", [KeyboardInterrupt(), RuntimeError("no")])
def test_an_interruption_leaves_nothing_half_made(cache: tiny.Cache, stopped: BaseException) -> None:
    with pytest.raises(type(stopped)):
        make(recipe(fails=stopped), pytest.fail)
    assert [name for name in cache.made if not name.endswith(".lock")] == []
    assert find(recipe()) is None
    assert make(recipe(), pytest.fail).files == {"weights": 3}


def test_what_was_killed_or_damaged_is_made_anew(cache: tiny.Cache) -> None:
    folder = recipe().folder
    left = folder.with_name(f"{folder.name}.unfinished")
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"")
    made = make(recipe(), pytest.fail)
    assert not left.exists() and sorted(path.name for path in made.folder.iterdir()) == ["made.json", "weights"]
    (made.folder / "weights").write_bytes(b"x")
    assert find(recipe()) is None
    assert make(recipe(), pytest.fail).files == {"weights": 3}


def test_a_full_disk_is_a_sentence(cache: tiny.Cache) -> None:
    with pytest.raises(TurnscopeError, match=r"cannot be made in .*No space left.* point XDG_CACHE_HOME"):
        make(recipe(fails=OSError(28, "No space left on device")), pytest.fail)


TENSORS = {"a": torch.zeros(100_000)}
WRITERS = {
    "torch": lambda folder: torch.save(TENSORS, folder / "a.pth"),
    "torch, small": lambda folder: torch.save({"a": torch.zeros(11_000)}, folder / "a.pth"),
    "safetensors": lambda folder: save_file(TENSORS, folder / "a.safetensors"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_disk_that_fills_while_a_library_writes_is_the_same_sentence(cache: tiny.Cache, kind: str) -> None:
    """The libraries have errors of their own for it. A limit on the size of files stands for the disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, usual[1]))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(TurnscopeError, match=r"cannot be made in .*\(a write failed\): .* point XDG_CACHE_HOME"):
            make(Recipe("thing", Shape(), 1, 3, WRITERS[kind], disk_bytes=3), pytest.fail)
    finally:
        signal.signal(signal.SIGXFSZ, handler)
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert [name for name in cache.made if not name.endswith(".lock")] == []
