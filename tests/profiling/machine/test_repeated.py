"""Measured ceilings: what is counted, by a clock that ticks when it is read."""

import threading

import numpy as np
import pytest

from profiling.machine import Ceiling, Probe, matmul_rate, read_bandwidth, repeated
from tests.fakes.ticking import TickingClock

TICK_S = 1e-3


def test_a_ceiling_keeps_its_spread() -> None:
    ceiling = Ceiling("read", "B/s", "cpu", 1, (3.0, 1.0, 2.0))
    assert (ceiling.lowest, ceiling.median, ceiling.highest) == (1, 2, 3)
    assert ceiling.with_more(Ceiling("read", "B/s", "cpu", 1, (9.0,))).values == (3, 1, 2, 9)


@pytest.mark.parametrize("threads", [1, 3])
def test_bandwidth_is_bytes_over_time(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    largest = np.ndarray.max

    class Seen(np.ndarray):
        def max(self, *arguments: object, **named: object) -> object:
            read.append((len(self), threading.get_ident()))
            return largest(self.view(np.ndarray), *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(repeated.np, "ones", lambda size, dtype: np.full(size, 1, dtype).view(Seen))
    ceiling = read_bandwidth(TickingClock(), threads=threads, repetitions=2, probe=Probe(3000, (1, 1), 1))
    assert ceiling.values == (3000 / TICK_S, 3000 / TICK_S)
    assert (ceiling.unit, ceiling.threads, ceiling.device) == ("B/s", threads, "cpu")
    assert sum(size for size, _ in read) == 3 * 3000  # one more to warm up
    elsewhere = [thread for _, thread in read if thread != threading.get_ident()]
    assert len(read) == 3 * threads and len(elsewhere) == 3 * (threads - 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_matrix_product_counts_two_operations_per_weight_and_row(dtype: str) -> None:
    ceiling = matmul_rate(TickingClock(), dtype, repetitions=3, probe=Probe(1, (64, 32), 16))
    assert ceiling.values == (2 * 64 * 32 * 16 / TICK_S,) * 3
    assert ceiling.unit == "FLOP/s" and dtype in ceiling.what


def test_a_slow_machine_multiplies_fewer_rows() -> None:
    probe = Probe(1, (64, 32), 4096)
    ceiling = matmul_rate(TickingClock(), "float32", repetitions=1, probe=probe, longest_s=2.5 * TICK_S)
    rows = ceiling.values[0] * TICK_S / (2 * 64 * 32)
    assert rows == int(2.5 * 32)  # the trial had 32
