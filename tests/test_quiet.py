"""Silence while a library is at work, and everything as it was afterwards."""

import logging
import sys
import warnings

import pytest

from agent.quiet import quiet


def test_nothing_is_seen_of_what_a_library_says(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("a library's")
    before = (sys.stdout, sys.stderr, warnings.showwarning, list(warnings.filters))
    with quiet():
        handler = logging.StreamHandler()
        print("loading")
        print("loading", file=sys.stderr)
        warnings.warn("this is old", stacklevel=1)
        logger.critical("this is bad")
        warnings.showwarning = lambda *_, **__: None
    logger.addHandler(handler)
    logger.propagate = False
    logger.warning("a handler made meanwhile stays silent")
    logger.removeHandler(handler)
    assert capfd.readouterr() == ("", "")
    assert (sys.stdout, sys.stderr, warnings.showwarning, list(warnings.filters)) == before
    assert logging.root.manager.disable == 0


def test_a_failure_is_passed_on_and_ends_the_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="of no use"), quiet():
        raise ValueError("of no use")
    print("heard")
    assert capfd.readouterr().out == "heard\n" and logging.root.manager.disable == 0
