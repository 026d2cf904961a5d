"""What was measured of an engine and a machine with nothing beside them: the samples that the laws are fitted to."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from profiling.environment import Machine
from profiling.fit import Fit, fit

FORMAT = 1
CPU = "cpu"


def ceiling_key(name: str, device: str, threads: int) -> str:
    """What the work of an engine calls its ceiling: on a CPU, it has one for each number of threads."""
    return f"{name}, {device}" if device != CPU else f"{name}, {threads} {'thread' if threads == 1 else 'threads'}"


class Sample(BaseModel):
    """One operation (`profiling.operations`), measured once. `parts_s` sum to at most `duration_s`."""

    model_config = ConfigDict(frozen=True)

    operation: str
    duration_s: float
    units: Mapping[str, float] = {}
    parts_s: Mapping[str, float] = {}


class FirstAudio(BaseModel):
    """A phrase that was streamed alone: how long each of its patches' ends came after the text, and how much sound had
    come by then. `checks` marks one that no law is fitted to."""

    model_config = ConfigDict(frozen=True)

    units: float
    setup_s: float
    patch_ends_s: tuple[float, ...]
    audio_ends_s: tuple[float, ...]
    checks: bool = False


class Rates(BaseModel):
    """A ceiling as measured several times, in bytes or operations per second."""

    model_config = ConfigDict(frozen=True)

    name: str
    unit: str
    device: str
    threads: int
    values: tuple[float, ...]

    @property
    def key(self) -> str:
        return ceiling_key(self.name, self.device, self.threads)


class Calibration(BaseModel):
    """`engines` are model names by asr, llm, tts; `warnings` sentences about what disturbed it."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    made: str
    machine: Machine
    engines: Mapping[str, str]
    samples: tuple[Sample, ...] = ()
    phrases: tuple[FirstAudio, ...] = ()
    ceilings: tuple[Rates, ...] = ()
    warnings: tuple[str, ...] = ()
    took_s: float = 0.0

    def of(self, operation: str) -> list[Sample]:
        return [sample for sample in self.samples if sample.operation == operation]

    def law(self, operation: str) -> Fit | None:
        """The time of an operation over its units; None when it was not measured."""
        samples = self.of(operation)
        return fit([s.units for s in samples], [s.duration_s for s in samples]) if samples else None
