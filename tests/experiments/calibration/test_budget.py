"""Rounds of measurements in a time that may be too short, on a virtual clock."""

import pytest

from agent.experiments.calibration.budget import Budget, to_and_fro
from tests.fakes.virtual_time import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def measured(clock: VirtualClock, budget: Budget, **how: int) -> list[tuple[int, str]]:
    """Each takes a second."""
    found: list[tuple[int, str]] = []
    for number, item in budget.interleaved("abc", **how):
        found.append((number, item))
        clock.work(1)
    return found


def test_the_least_rounds_are_whole_whatever_they_take(clock: VirtualClock) -> None:
    assert measured(clock, Budget(clock, 0)) == [(0, "a"), (0, "b"), (0, "c")]
    assert len(measured(clock, Budget(clock, 1), least=2)) == 6


def test_after_them_it_ends_between_two_measurements(clock: VirtualClock) -> None:
    assert measured(clock, Budget(clock, 4.5))[3:] == [(1, "a"), (1, "b")]


def test_there_are_not_more_than_the_most_rounds(clock: VirtualClock) -> None:
    assert len(measured(clock, Budget(clock, 100), most=2)) == 6
    assert list(Budget(clock, 100).rounds(most=3)) == [0, 1, 2]
    assert list(Budget(clock, 0).rounds(least=2)) == [0, 1]


def test_every_second_round_goes_back(clock: VirtualClock) -> None:
    rounds = Budget(clock, 1).interleaved("abc", most=3, order=to_and_fro)
    assert "".join(item for _, item in rounds) == "abccbaabc"
