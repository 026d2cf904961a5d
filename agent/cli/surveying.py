"""The survey of this machine: the one in the user's cache, or a new one, with progress on standard error."""

from collections.abc import Mapping

from rich.console import Console

from agent import devices
from agent.cli import consoles
from agent.setup import cuda
from agent.user_cache import cache_folder
from profiling.environment import Machine
from profiling.machine.cached import load_survey, save_survey
from profiling.machine.survey import Survey, survey
from profiling.trace.clock import SystemClock


def known() -> Survey | None:
    """None where this machine has not been surveyed."""
    return load_survey(cache_folder(), Machine.this(), cuda_devices())


def measure(notes: Console) -> Survey:
    """Takes up to a minute. Kept in the user's cache; a note says so where that cannot be written."""
    with consoles.progress(notes) as tell:
        found = survey(SystemClock(), tell, devices=cuda_devices())
    try:
        save_survey(cache_folder(), found)
    except OSError as error:
        consoles.note(notes, f"The survey cannot be kept in {cache_folder()}: {error.strerror or error}.")
    return found


def cuda_devices() -> Mapping[str, str]:
    """Names by device, of those that PyTorch can use."""
    if not devices.torch_knows_cuda():
        return {}
    return {f"{devices.CUDA}:{number}": name for number, name in enumerate(cuda.find().devices)}
