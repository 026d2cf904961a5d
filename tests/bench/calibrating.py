"""How long it takes to get to know a machine and its engines for the first time."""

import asyncio
import os
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from agent.cli.gathering import gather
from agent.engine_choice import with_models
from agent.loading import load_engines
from agent.models.store import models_folder
from agent.settings import load as load_settings
from profiling.trace.clock import SystemClock
from tests.bench.figure import Figure, load

_VARIABLE = "XDG_CACHE_HOME"


def calibrating(console: Console) -> Iterator[Figure]:
    """The survey of `turnscope machine`, the count of the engines' work and the calibration of the default engines."""
    settings, clock = with_models(load_settings(flags={"engines": "cpu"})), SystemClock()
    with _empty_cache():
        engines = load_engines(settings, clock, lambda what: console.print(f"  {what} …"))
        console.print("  surveying the machine, measuring the engines alone …")
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        found = gather(settings, engines, clock, console, measured=True)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        asyncio.run(engines.workers.close())
    assert found.survey is not None and found.calibration is not None
    how = (
        f"survey {found.survey.took_s:.0f} s, engines {found.calibration.took_s:.0f} s; {cpu_s:.0f} s of CPU, {load()}"
    )
    yield Figure("calibration", wall_s, 90, "s", how)


@contextmanager
def _empty_cache() -> Generator[None]:
    """The user's cache with the models alone."""
    models, before = models_folder(), os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "turnscope"
        there.mkdir()
        (there / "models").symlink_to(models, target_is_directory=True)
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
            if before is not None:
                os.environ[_VARIABLE] = before
