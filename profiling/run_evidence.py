"""What a run is explained with, in files of its folder: so that it explains itself on another machine."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from profiling import operations as op
from profiling.calibration import Calibration, ceiling_key
from profiling.evidence import Evidence
from profiling.interval import Interval
from profiling.machine.measured import MeasuredCeiling
from profiling.machine.pooling import ceilings_for_run
from profiling.machine.probe import ProbeReading
from profiling.machine.survey import Survey
from profiling.run import writing
from profiling.work_book import WorkBook

WORK_JSON, CALIBRATION_JSON, MACHINE_JSON, PROBES_JSON = "work.json", "calibration.json", "machine.json", "probes.json"
_FULL_SIZE_BYTES = 4e9  # the published VoxCPM2 has 2.4 billion parameters of 16 bits
M = TypeVar("M", bound=BaseModel)


class Probes(BaseModel):
    """What the run's own probes saw, in the order of time."""

    model_config = ConfigDict(frozen=True)

    readings: tuple[ProbeReading, ...] = ()


def keep_evidence(folder: Path, book: WorkBook, calibration: Calibration | None, survey: Survey | None) -> None:
    """Write what is known before the run. Raises RunUnwritable."""
    _write(folder, WORK_JSON, book)
    if calibration is not None:
        _write(folder, CALIBRATION_JSON, calibration)
    if survey is not None:
        _write(folder, MACHINE_JSON, survey)


def keep_probes(folder: Path, readings: Sequence[ProbeReading]) -> None:
    """Raises RunUnwritable."""
    _write(folder, PROBES_JSON, Probes(readings=tuple(readings)))


@dataclass(frozen=True)
class RunEvidence:
    """`warnings` are sentences about what the folder lacks. `cache_bytes` is the processor's last cache, `call_s` what
    an empty step costs by device."""

    evidence: Evidence
    warnings: tuple[str, ...] = ()
    cache_bytes: int | None = None
    call_s: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_full_size_voxcpm2(self) -> bool:
        """Whether a patch's work is that of VoxCPM2's published size."""
        patch = self.evidence.work_book.operations.get(op.PATCH)
        read = {term.part: term.bytes.at({op.FORWARDS: 1.0}) for term in patch.terms} if patch else {}
        return "diffusion" in read and sum(read.values()) > _FULL_SIZE_BYTES


def load_evidence(folder: Path) -> RunEvidence:
    """What the folder holds; a file that cannot be read counts as absent. An older run may hold none."""
    book = _read(folder, WORK_JSON, WorkBook)
    calibration = _read(folder, CALIBRATION_JSON, Calibration)
    survey = _read(folder, MACHINE_JSON, Survey)
    probes = _read(folder, PROBES_JSON, Probes) or Probes()
    lacking = {
        WORK_JSON: (book, "how much work each step was is not known"),
        CALIBRATION_JSON: (calibration, "how long the engines take alone is not known"),
        MACHINE_JSON: (survey, "what the machine can do at most is not known"),
    }
    sentences = [
        f"There is no readable {name} in {folder}: {so}." for name, (found, so) in lacking.items() if not found
    ]
    book = book or WorkBook()
    return RunEvidence(
        Evidence(book, calibration, run_ceilings(book, survey, calibration, probes.readings)),
        tuple(sentences),
        survey.cache_bytes if survey else None,
        {one.device: one.each_s.value for one in survey.overheads} if survey else {},
    )


def run_ceilings(
    book: WorkBook, survey: Survey | None, calibration: Calibration | None, readings: Sequence[ProbeReading] = ()
) -> Mapping[str, Interval]:
    """Every ceiling that the work book may name, by `calibration.ceiling_key`, as it was in the run."""
    found: dict[str, Interval] = {}
    own = calibration.ceilings if calibration else ()
    for rates in own:
        found[rates.key] = Interval.of_median(rates.values)
    if survey is None:
        return found
    more = [
        MeasuredCeiling.of_values(r.name, r.unit, r.values, kernel=r.name, device=r.device, threads=r.threads)
        for r in own
    ]
    whole = survey.with_ceilings(more)
    for device, threads in book.places:
        for name, interval in ceilings_for_run(whole, readings, device=device, threads=threads).items():
            found[ceiling_key(name, device, threads)] = interval
    return found


def _write(folder: Path, name: str, content: BaseModel) -> None:
    with writing(folder):
        (folder / name).write_text(content.model_dump_json() + "\n", encoding="utf-8")


def _read(folder: Path, name: str, kind: type[M]) -> M | None:
    with suppress(OSError, ValidationError):
        return kind.model_validate_json((folder / name).read_bytes())
    return None
