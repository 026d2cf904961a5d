"""What the engines on PyTorch have in common: the threads they compute with, and what it says when memory is short."""

import errno

import torch


def use_threads(count: int | None) -> None:
    """Let the calling thread compute with `count` threads; None leaves it as it is. PyTorch keeps the number for each
    thread, and one that has not computed yet takes what was last set in the process, so an engine says it wherever it
    begins to compute."""
    if count is not None and torch.get_num_threads() != count:
        torch.set_num_threads(count)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the host's or a device's memory is short. The host's allocator has no type for it."""
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or "DefaultCPUAllocator" in str(error)
    )
