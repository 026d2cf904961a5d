"""Drawing measurements anew, with repetition, to learn how far a figure made of them can be trusted."""

import numpy as np
from numpy.typing import NDArray


def drawn(count: int, draws: int, random: np.random.Generator) -> NDArray[np.float64]:
    """How often each of `count` measurements is in each draw (draws, count): at first all of them once, which gives the
    estimate itself, then as many as there are, with repetition. Source: Efron 1979."""
    chosen = random.integers(count, size=(draws - 1, count)) + np.arange(draws - 1)[:, None] * count
    times = np.bincount(chosen.ravel(), minlength=(draws - 1) * count).reshape(draws - 1, count)
    return np.vstack([np.ones((1, count)), times.astype(np.float64)])
