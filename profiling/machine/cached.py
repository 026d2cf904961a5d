"""The last survey of this machine, kept as JSON in a folder of the caller's choice."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from profiling.environment import Machine
from profiling.machine.survey import FORMAT, Survey
from profiling.whole_file import write_whole


def survey_file(folder: Path, machine: Machine, devices: Mapping[str, str]) -> Path:
    """One file for a CPU model, its cores, those that may be used, and the CUDA devices."""
    key = json.dumps([machine.cpu, machine.cores, machine.usable_cores, sorted(devices.items())])
    return folder / f"machine-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def load_survey(folder: Path, machine: Machine, devices: Mapping[str, str]) -> Survey | None:
    """None where there is none of this machine, or one that is damaged or of another version: measure it again."""
    with suppress(OSError, ValidationError):
        survey = Survey.model_validate_json(survey_file(folder, machine, devices).read_bytes())
        return survey if survey.format == FORMAT else None
    return None


def save_survey(folder: Path, survey: Survey) -> Path:
    """Replaces the last one as a whole. Raises OSError."""
    path = survey_file(folder, survey.machine, survey.devices)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, survey.model_dump_json(indent=2) + "\n")
    return path


def age_s(survey: Survey, now: datetime) -> float:
    """Seconds since it was made; 0 for one from the future, which a clock that was set makes."""
    return max(0.0, (now - survey.made).total_seconds())
