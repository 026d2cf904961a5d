"""Matrix products and empty calls by a clock that ticks when it is read, and how kernels are named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from profiling.machine import openblas
from profiling.machine.compute import numpy_product, torch_product
from profiling.machine.kernels import instruction_sets, numpy_kernel, torch_kernel
from profiling.machine.overhead import numpy_call, torch_call
from tests.fakes.ticking import TickingClock
from tests.profiling.machine.fake_system import written

TICK_S = 1e-3


@pytest.mark.parametrize("threads", [1, 3])
def test_numpy_multiplies_as_many_rows_as_the_time_takes(threads: int) -> None:
    ceiling = numpy_product(TickingClock(), threads, width=64, repetitions=3, each_s=5 * TICK_S)
    assert ceiling.values == (2 * 64 * 64 * 5 * 32 / TICK_S,) * 3  # the trial had 32 rows
    assert (ceiling.name, ceiling.unit, ceiling.threads) == ("float32", "FLOP/s", threads)
    assert ceiling.interval.n == 3 and "numpy" in ceiling.kernel


def test_pytorch_is_left_with_the_threads_it_had() -> None:
    before = torch.get_num_threads()
    ceiling = torch_product(TickingClock(), "bfloat16", threads=before + 1, width=64, repetitions=2, each_s=TICK_S)
    assert torch.get_num_threads() == before
    assert (ceiling.name, ceiling.threads) == ("bfloat16", before + 1)
    assert ceiling.kernel == torch_kernel("bfloat16", "cpu") and torch.__version__ in ceiling.kernel


def test_an_empty_step_costs_the_batchs_time_by_its_calls() -> None:
    clock = TickingClock()
    for found in (numpy_call(clock, calls=4), torch_call(clock, calls=4)):
        assert (found.each_s.low, found.each_s.value, found.each_s.high) == (TICK_S / 4,) * 3
        assert found.device == "cpu"


def test_numpy_is_told_its_threads_and_gets_them_back() -> None:
    blas = openblas.find()
    before = blas.threads if blas else None
    with openblas.using_threads(1):
        assert blas is None or blas.threads == 1
        np.ones((2, 2)) @ np.ones((2, 2))
    assert (blas.threads if blas else None) == before


def test_numpys_kernel_names_library_and_version() -> None:
    assert numpy_kernel().startswith(f"numpy {np.__version__}, ")


def test_without_openblas_the_kernel_is_what_numpy_was_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openblas, "find", lambda: None)
    built = {"Build Dependencies": {"blas": {"name": "accelerate", "version": "unknown"}}}
    monkeypatch.setattr(np, "show_config", lambda mode: built)
    assert numpy_kernel() == f"numpy {np.__version__}, accelerate unknown"
    with openblas.using_threads(1):
        assert numpy_product(TickingClock(), 2, width=64, repetitions=1).threads == 2


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("model name : x\nflags\t\t: fpu avx2 fma avx512f avx5\n", ("avx2", "fma", "avx512f")),
        ("Features\t: fp asimd i8mm\n", ("asimd", "i8mm")),
        ("", ()),
    ],
)
def test_instruction_sets_are_read_as_whole_words(tmp_path: Path, text: str, sets: tuple[str, ...]) -> None:
    assert instruction_sets(written(tmp_path, proc__cpuinfo=text)) == sets
    assert instruction_sets(tmp_path / "nowhere") == ()
