"""What a run is explained with, gathered around it: the machine's ceilings, the engines alone, the run's own probes."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from agent.cli import consoles, surveying
from agent.devices import CPU
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.experiments.calibration import store
from agent.experiments.calibration.calibrate import calibrate
from agent.experiments.workload.book import work_book
from agent.settings import Settings
from profiling.calibration import Calibration
from profiling.machine.pooling import threads_to_probe
from profiling.machine.probe import LONGEST_S, Prober, ProbeReading
from profiling.machine.survey import Survey
from profiling.run_evidence import keep_evidence, keep_probes
from profiling.trace.clock import Clock
from profiling.work_book import WorkBook

_GAP_S = 0.2  # of the silence with which a scenario begins


@dataclass
class Gathered:
    """`survey` and `calibration` are None where they were not asked for; then the run is not probed either."""

    book: WorkBook
    survey: Survey | None = None
    calibration: Calibration | None = None
    readings: list[ProbeReading] = field(default_factory=list[ProbeReading])
    _probers: list[Prober] = field(default_factory=list[Prober])

    def keep(self, folder: Path) -> None:
        keep_evidence(folder, self.book, self.calibration, self.survey)

    def probe(self, folder: Path, clock: Clock) -> None:
        """At most half a second, in which nothing else should run."""
        if self.survey is None:
            return
        if not self._probers:
            self._probers = [Prober(threads=n, device=place) for place, n in _places(self.book, self.survey)]
        self._read(clock, LONGEST_S)
        keep_probes(folder, self.readings)

    def probe_in_gap(self, clock: Clock) -> None:
        """In a thread of its own, while the engines have nothing to do; kept with the next probe."""
        if self._probers:
            threading.Thread(target=self._read, args=(clock, _GAP_S), daemon=True).start()

    def _read(self, clock: Clock, limit_s: float) -> None:
        self.readings += [one.read(clock, limit_s=limit_s / len(self._probers)) for one in self._probers]


def _places(book: WorkBook, survey: Survey) -> list[tuple[str, int]]:
    """Devices that were surveyed, and numbers of threads that the survey has probed too, so that they can be
    compared."""
    known = {(device, count) for device, count in book.places if device == CPU or device in survey.devices}
    return sorted({(device, threads_to_probe(survey, count, device=device)) for device, count in known})


def gather(settings: Settings, engines: Engines, clock: Clock, notes: Console, *, measured: bool) -> Gathered:
    """`settings` name a model for every stage, `engines` are theirs. With `measured`, what was not measured yet of this
    machine and these engines is measured now, which takes a minute or two, and kept for the next runs."""
    book = _counted(settings, notes)
    if not measured:
        return Gathered(book)
    survey = surveying.known() or surveying.measure(notes)
    calibration = store.find(settings) or calibrated(settings, engines, book, clock, notes)
    for warning in calibration.warnings:
        consoles.note(notes, f"Of the calibration: {warning}")
    return Gathered(book, survey, calibration)


def _counted(settings: Settings, notes: Console) -> WorkBook:
    """Empty where it cannot be counted: a run needs it only to be explained."""
    try:
        return work_book(settings)
    except (OSError, ValueError) as error:
        consoles.note(notes, f"The engines' work cannot be counted ({error}): is there room for temporary files?")
        return WorkBook()


def calibrated(settings: Settings, engines: Engines, book: WorkBook, clock: Clock, notes: Console) -> Calibration:
    """Measured now, with progress, and kept where that is possible."""
    with consoles.progress(notes, "Measuring {} alone, once for all runs …") as tell:
        found = calibrate(settings, engines, book, clock, tell)
    try:
        store.keep(settings, found)
    except TurnscopeError as error:
        consoles.note(notes, str(error))
    return found
