"""What a run's steps are explained with, beside the run itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from profiling.calibration import Calibration
from profiling.interval import Interval
from profiling.work_book import WorkBook


@dataclass(frozen=True)
class Evidence:
    """`ceilings` by the names that the work book uses, in bytes or operations per second. `calibration` is None where
    nothing was calibrated."""

    work_book: WorkBook
    calibration: Calibration | None
    ceilings: Mapping[str, Interval]
