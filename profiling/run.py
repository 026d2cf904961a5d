"""The run folder: what was run, where and with what (run.json), the trace of its turns, the conversation as sound."""

import errno
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from profiling.environment import LIBRARIES, Machine, versions_of
from profiling.trace import vocabulary as v
from profiling.trace.clock import NS_PER_S, Anchor, Clock, seconds
from profiling.trace.otlp_file import ReadResult, TraceFile, read_turns
from profiling.trace.spans import TurnContent
from profiling.trace.timeline import Turn
from profiling.whole_file import write_whole

RUN_JSON, TRACE_JSONL, CONVERSATION_WAV = "run.json", "trace.jsonl", "conversation.wav"
FORMAT = 1
STEPPED_NS = 50_000_000  # a wall clock that moves further than this against the monotonic one is reported


class RunUnreadable(Exception):
    """A sentence: why a run cannot be explained."""


class RunUnwritable(Exception):
    """A sentence: why a run folder cannot be written, and what to do."""


class RunInfo(BaseModel):
    """What run.json holds. `models` are SHA-256 by name; `end` is None and `complete` false until the run has ended."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    name: str
    started: str
    complete: bool = False
    scenarios: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    models: dict[str, str] = {}
    versions: dict[str, str] = {}
    machine: Machine
    start: Anchor
    end: Anchor | None = None

    @field_validator("start", "end")
    @classmethod
    def _is_int64(cls, anchor: Anchor | None) -> Anchor | None:
        if anchor is not None and max(abs(anchor.monotonic_ns), abs(anchor.wall_ns)) >= 2**63:
            raise ValueError("out of range")
        return anchor


@dataclass(frozen=True)
class Run:
    """A run read back from its folder. `info` is None when run.json is missing or damaged; `warnings` are sentences."""

    folder: Path
    info: RunInfo | None
    turns: tuple[Turn, ...]
    contents: tuple[TurnContent | None, ...]
    warnings: tuple[str, ...]


class RunWriter:
    """Makes a run's folder, `<parent>/<UTC time>-<name>/`, and keeps it readable at every moment."""

    def __init__(
        self,
        parent: Path,
        name: str,
        clock: Clock,
        *,
        settings: Mapping[str, Any] | None = None,
        scenarios: Iterable[str] = (),
        models: Mapping[str, str] | None = None,
        libraries: Iterable[str] = LIBRARIES,
    ):
        """Reads the run's first anchor, which converts every time stamp of the run. `settings` must be JSON's types.
        Raises RunUnwritable."""
        self._clock = clock
        start = Anchor.read(clock)
        started = datetime.fromtimestamp(start.wall_ns // NS_PER_S, UTC)
        self.folder = parent / f"{started:%Y%m%dT%H%M%SZ}-{_slug(name)}"
        with writing(self.folder):
            self.folder = _make_folder(self.folder)
            self.info = RunInfo(
                name=name,
                started=started.isoformat(),
                scenarios=tuple(scenarios),
                settings=dict(settings or {}),
                models=dict(models or {}),
                versions=versions_of(libraries),
                machine=Machine.this(),
                start=start,
            )
            self._write_info()
            resource = {v.RUN: self.folder.name}
            if "turnscope" in self.info.versions:
                resource["service.version"] = self.info.versions["turnscope"]
            self._trace = TraceFile(self.trace_path, resource)

    @property
    def trace_path(self) -> Path:
        return self.folder / TRACE_JSONL

    @property
    def wav_path(self) -> Path:
        return self.folder / CONVERSATION_WAV

    def write_turn(self, turn: Turn, content: TurnContent | None = None) -> list[ReadableSpan]:
        """Append the turn to the trace and return its spans; texts are kept only when handed over.

        Raises RunUnwritable."""
        with writing(self.folder):
            return self._trace.write(turn, self.info.start, content)

    def close(self, complete: bool) -> None:
        """Write how the run ended and its last anchor. Raises RunUnwritable."""
        with writing(self.folder):
            self._trace.close()
            self.info = self.info.model_copy(update={"complete": complete, "end": Anchor.read(self._clock)})
            self._write_info()

    def _write_info(self) -> None:
        write_whole(self.folder / RUN_JSON, self.info.model_dump_json(indent=2) + "\n")


def load_run(path: Path) -> Run:
    """Read a run from its folder, its run.json or its trace file, as far as it can be read.

    Raises RunUnreadable when there is nothing to explain: no such path, no trace, or a trace without any turn and no
    run.json that says whose it is.
    """
    trace_path, info_path = _files_of(path)
    result = _read_trace(trace_path)
    info, warnings = _read_info(info_path) if info_path else (None, [])
    if not result.turns and (info is None or trace_path.stat().st_size > 0):
        reason = result.warnings[0] if result.warnings else "it holds no spans."
        raise RunUnreadable(f"No turn can be read from {trace_path}: {reason}")
    return Run(trace_path.parent, info, result.turns, result.contents, (*warnings, *result.warnings))


@contextmanager
def writing(folder: Path) -> Generator[None]:
    """Turn an OSError inside into RunUnwritable."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "the disk is full; free some space or give another folder"
        else:
            reason = f"{(error.strerror or str(error)).lower()}; give another folder or make this one writable"
        raise RunUnwritable(f"The run folder {folder} cannot be written: {reason}.") from error


def _files_of(path: Path) -> tuple[Path, Path | None]:
    """The trace file and the run.json that `path` stands for."""
    try:
        if path.is_dir():
            return path / TRACE_JSONL, path / RUN_JSON
        if not path.exists():
            raise RunUnreadable(f"There is no run at {path}; give a run folder, its run.json or its trace.jsonl.")
    except OSError as error:
        raise RunUnreadable(f"{path} cannot be read: {error.strerror}.") from error
    if path.name in (RUN_JSON, TRACE_JSONL):
        return path.with_name(TRACE_JSONL), path.with_name(RUN_JSON)
    return path, None


def _read_trace(path: Path) -> ReadResult:
    if path.exists() and not path.is_file():
        raise RunUnreadable(f"{path} is not a file: give a run folder, its run.json or its trace.jsonl.")
    try:
        return read_turns(path)
    except FileNotFoundError:
        raise RunUnreadable(f"The run {path.parent} has no {path.name}: there is nothing to explain.") from None
    except OSError as error:
        raise RunUnreadable(f"The trace {path} cannot be read: {error.strerror}.") from error


def _read_info(path: Path) -> tuple[RunInfo | None, list[str]]:
    unknown = "the settings and versions of the run are not known"
    if path.exists() and not path.is_file():
        return None, [f"{path} is not a file: {unknown}."]
    try:
        info = RunInfo.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None, [f"There is no {path}: {unknown}."]
    except OSError as error:
        return None, [f"{path} cannot be read ({error.strerror}): {unknown}."]
    except ValidationError:
        return None, [f"{path} is damaged: {unknown}."]
    warnings: list[str] = []
    if info.format > FORMAT:
        warnings.append(f"{path} was written by a newer turnscope; what this one does not know is passed over.")
    if not info.complete:
        warnings.append("The run was stopped before its end.")
    if info.end is not None and abs(stepped_ns := info.start.stepped_ns(info.end)) > STEPPED_NS:
        warnings.append(
            f"The system's clock moved by {seconds(stepped_ns):+.3f} s against the monotonic clock during the run (it"
            " was set, or the machine slept): durations hold, times of day after that are off by as much."
        )
    return info, warnings


def _make_folder(wanted: Path) -> Path:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    folder, number = wanted, 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
        else:
            return folder


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "run"
