"""What PyTorch tells of a CUDA device."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from profiling.machine.gpu_clocks import GpuClock, gpu_clocks


def l2_cache_bytes(device: str) -> int:
    import torch

    cuda: Any = torch.cuda
    return int(cuda.get_device_properties(device).L2_cache_size)


def free_bytes(device: str) -> int:
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def give_memory_back() -> None:
    """Let go of what PyTorch keeps for later tensors."""
    import torch

    torch.cuda.empty_cache()


def clock_under_work(device: str) -> GpuClock | None:
    """Asked for while the GPU multiplies: an idle one has a low clock and nothing that holds it back."""
    import torch

    cuda: Any = torch.cuda
    matrix = torch.rand(4096, 4096, device=device).sub_(0.5)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(gpu_clocks)
        while not answer.done():
            torch.nn.functional.linear(matrix, matrix)
            torch.cuda.synchronize(device)
        return answer.result().get(f"GPU-{cuda.get_device_properties(device).uuid}")
