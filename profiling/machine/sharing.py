"""Work on the rows of a matrix, shared by threads of ours: OpenBLAS's own wait for the next work without sleeping."""

import threading
from collections.abc import Callable
from itertools import pairwise


def shared(work: Callable[[slice], object], first: int, last: int, threads: int) -> None:
    """Call `work` with every thread's share of the rows from `first` to `last`; numpy lets the others run meanwhile."""
    borders = [first + (last - first) * number // threads for number in range(threads + 1)]
    mine, *others = [slice(start, end) for start, end in pairwise(borders)]
    started = [threading.Thread(target=work, args=(share,)) for share in others]
    for thread in started:
        thread.start()
    work(mine)
    for thread in started:
        thread.join()
