"""The cache that checkouts share, and its locks."""

import subprocess
from pathlib import Path

import pytest

from agent.user_cache import cache_folder, exclusive, try_exclusive


def never() -> None:
    raise AssertionError("nobody else holds the lock")


def test_the_cache_is_where_the_user_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/turnscope")
    for unusable in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache_folder() == tmp_path / ".cache" / "turnscope"


def test_a_lock_is_exclusive_and_given_back(tmp_path: Path) -> None:
    lock_file = tmp_path / "new folder" / "lock"
    with exclusive(lock_file, never), try_exclusive(lock_file) as free:
        assert not free
    with try_exclusive(lock_file) as free:
        assert free


def test_a_child_that_inherits_a_lock_keeps_it_until_it_ends(tmp_path: Path) -> None:
    lock_file = tmp_path / "lock"
    with exclusive(lock_file, never):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, close_fds=False)
    with try_exclusive(lock_file) as free:
        assert not free
    child.communicate()
    with exclusive(lock_file, never):
        pass
