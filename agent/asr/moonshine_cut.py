"""Where a long monologue is cut, and how its two halves are joined."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SMOOTHING = 6  # spans (60 ms): a shorter dip is a stop consonant, not a gap between words


def quietest(powers: NDArray[np.float64], first: int, last: int) -> int:
    """Of the spans (10 ms) from `first` to `last`, the one in the middle of the quietest 60 ms."""
    smoothed = np.convolve(powers, np.full(_SMOOTHING, 1 / _SMOOTHING), mode="same")
    return first + int(np.argmin(smoothed[first:last]))


def overlap(old: Sequence[str], new: Sequence[str]) -> tuple[int, int] | None:
    """Find where `new`, the words heard from a cut on, begins in `old`, the words heard from well before the cut on.

    Both end at the same moment. Returns (start, length): the first run of equal words of the alignment with the fewest
    differences (Levenshtein, `new` against any end of `old`); None when there is no run of two, or of all of `new`.
    Words are compared without case and punctuation.
    """
    left, right = [bare(word) for word in old], [bare(word) for word in new]
    cost = np.zeros((len(left) + 1, len(right) + 1), np.int64)
    cost[0] = np.arange(len(right) + 1)
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            cost[i, j] = min(cost[i - 1, j - 1] + (left[i - 1] != right[j - 1]), cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    pairs: list[tuple[int, int]] = []
    i, j = len(left), len(right)
    while i and j:
        if cost[i, j] == cost[i - 1, j - 1] + (left[i - 1] != right[j - 1]):
            i, j = i - 1, j - 1
            if left[i] == right[j]:
                pairs.append((i, j))
        elif cost[i, j] == cost[i, j - 1] + 1:
            j -= 1
        else:
            i -= 1
    return _first_run(pairs[::-1], min(2, len(right)))


def bare(word: str) -> str:
    return re.sub(r"[^\w']", "", word).casefold()


def _first_run(pairs: Sequence[tuple[int, int]], at_least: int) -> tuple[int, int] | None:
    start = 0
    for end in range(1, len(pairs) + 1):
        if end == len(pairs) or pairs[end] != (pairs[end - 1][0] + 1, pairs[end - 1][1] + 1):
            if end - start >= at_least:
                return pairs[start][0], end - start
            start = end
    return None
