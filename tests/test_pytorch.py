"""What the engines on PyTorch share: threads that are a thread's own, and errors that mean memory."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from agent.pytorch import is_out_of_memory, use_threads


def test_each_thread_computes_with_its_own_number() -> None:
    before = torch.get_num_threads()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for thread, count in ((one, 2), (other, 1), (one, None)):
            thread.submit(use_threads, count).result()
        assert (one.submit(torch.get_num_threads).result(), other.submit(torch.get_num_threads).result()) == (2, 1)
        one.submit(torch.set_num_threads, before).result()
    assert torch.get_num_threads() == before


def test_the_number_is_set_only_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    count = torch.get_num_threads()
    for wanted in (count, None, count + 1):
        use_threads(wanted)
    assert calls == [count + 1]


def test_errors_that_mean_memory() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60)
    for error in (refused.value, MemoryError(), torch.OutOfMemoryError("CUDA"), OSError(errno.ENOMEM, "no memory")):
        assert is_out_of_memory(error)
    for error in (RuntimeError("a size mismatch"), OSError(errno.ENOSPC, "disk"), OSError("odd")):
        assert not is_out_of_memory(error)
