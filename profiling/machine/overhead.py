"""What a step costs that has nothing to do: the least numpy and PyTorch calls, and the launch of an empty kernel."""

from collections.abc import Callable

import numpy as np

from profiling.calibration import CPU
from profiling.interval import Interval
from profiling.machine.measured import Overhead
from profiling.trace.clock import Clock, seconds

NUMPY_CALL, TORCH_CALL = "numpy call", "PyTorch call"
LAUNCH_AND_WAIT, QUEUED_LAUNCH = "launch and wait", "queued launch"
CALLS = 1000  # of a batch
_BATCHES = 15
_WAITED_SHARE = 20  # a launch that is waited for takes so many times as long as a queued one


def numpy_call(clock: Clock, *, calls: int = CALLS) -> Overhead:
    """Two single numbers added."""
    one = np.zeros(1, np.float32)
    each_s = _each_s(clock, lambda: np.add(one, one, out=one), calls)
    return Overhead(name=NUMPY_CALL, device=CPU, each_s=each_s, kernel=f"numpy {np.__version__}, add of one float32")


def torch_call(clock: Clock, *, calls: int = CALLS) -> Overhead:
    """The same by PyTorch on the CPU."""
    import torch

    one = torch.zeros(1)
    with torch.inference_mode():
        each_s = _each_s(clock, lambda: torch.add(one, one, out=one), calls)
    return Overhead(name=TORCH_CALL, device=CPU, each_s=each_s, kernel=_torch())


def cuda_launches(clock: Clock, device: str, *, calls: int = CALLS) -> list[Overhead]:
    """A kernel with one number to add: launched and waited for, and launched into a queue that is waited for once. The
    inverse of the latter is the rate at which steps can be queued."""
    import torch

    one = torch.zeros(1, device=device)

    def launch() -> None:
        torch.add(one, one, out=one)

    def launch_and_wait() -> None:
        launch()
        torch.cuda.synchronize(device)

    with torch.inference_mode():
        waited = _each_s(clock, launch_and_wait, max(1, calls // _WAITED_SHARE))
        queued = _each_s(clock, launch, calls, lambda: torch.cuda.synchronize(device))
    return [
        Overhead(name=LAUNCH_AND_WAIT, device=device, each_s=waited, kernel=_torch()),
        Overhead(name=QUEUED_LAUNCH, device=device, each_s=queued, kernel=_torch()),
    ]


def _each_s(clock: Clock, call: Callable[[], object], calls: int, wait: Callable[[], object] | None = None) -> Interval:
    """The median over batches of a batch's time by its calls; one batch more goes before them to warm up."""

    def batch_s() -> float:
        start_ns = clock.now_ns()
        for _ in range(calls):
            call()
        if wait:
            wait()
        return seconds(clock.now_ns() - start_ns) / calls

    batch_s()
    return Interval.of_median([batch_s() for _ in range(_BATCHES)])


def _torch() -> str:
    import torch

    return f"PyTorch {torch.__version__}, add of one float32"
