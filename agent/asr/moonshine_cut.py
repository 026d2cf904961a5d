"""Where a long monologue is cut, and how its two halves are joined."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SMOOTHING = 10  # spans (100 ms): a shorter dip is a stop consonant, not a gap between words


def quietest(powers: NDArray[np.float64], first: int, last: int) -> int:
    """Of the spans (10 ms) from `first` to `last`, the one in the middle of the quietest 100 ms."""
    smoothed = np.convolve(powers, np.full(_SMOOTHING, 1 / _SMOOTHING), mode="same")
    return first + int(np.argmin(smoothed[first:last]))


def overlap(old: Sequence[str], new: Sequence[str]) -> tuple[int, int] | None:
    """Find where `new`, the words heard from a cut on, begins in `old`, the words heard from well before it on.

    Both end at the same moment. The words are aligned with the fewest differences (Levenshtein, `new` against any end
    of `old`, without case and punctuation). Returns start and length, in `old`, of the first run of equal words; None
    when it is not the first or second word of `new` that starts it, or when fewer than half of `new` have an equal.
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
    if not pairs or pairs[-1][1] > 1 or 2 * len(pairs) < len(right):
        return None
    start, position = pairs.pop()
    length = 1
    while pairs and pairs.pop() == (start + length, position + length):
        length += 1
    return start, length


def bare(word: str) -> str:
    return re.sub(r"[^\w']", "", word).casefold()
