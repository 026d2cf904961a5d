"""A run's explanation from what its folder holds; shared by the commands that print one."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.asr.protocol import TAIL_S
from profiling.clock_step import clock_stepped_s
from profiling.plausibility import Surroundings
from profiling.predictions.conditions import Conditions
from profiling.report.explanation import Explanation
from profiling.run import RunInfo
from profiling.run_evidence import RunEvidence
from profiling.trace.timeline import Turn


def explanation_of(
    turns: Sequence[Turn], settings: Mapping[str, Any], found: RunEvidence, info: RunInfo | None = None
) -> Explanation:
    """`settings` are those of the run, as run.json keeps them; empty where they are not known. `info` is the run's,
    where it was read back."""
    of_asr: Any = settings.get("asr")
    conditions = Conditions(
        book=found.evidence.work_book,
        ceilings=found.evidence.ceilings,
        calibration=found.evidence.calibration,
        flushed=of_asr.get("flush") if isinstance(of_asr, Mapping) else None,
        tail_s=TAIL_S,
        full_size_voxcpm2=found.is_full_size_voxcpm2,
        surroundings=surroundings_of(turns, found, info),
    )
    return Explanation(turns, found.evidence, conditions)


def surroundings_of(turns: Sequence[Turn], found: RunEvidence, info: RunInfo | None) -> Surroundings:
    """What tells the causes of impossible figures apart."""
    stepped_s = clock_stepped_s(turns, info.start, info.end) if info else 0.0
    return Surroundings(found.cache_bytes, found.call_s, stepped_s)
