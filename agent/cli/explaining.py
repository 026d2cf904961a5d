"""A run's explanation from what its folder holds; shared by the commands that print one."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.listening.recognition import TAIL_S
from profiling.plausibility import Surroundings
from profiling.predictions.conditions import Conditions
from profiling.report.explanation import Explanation
from profiling.run_evidence import RunEvidence
from profiling.trace.timeline import Turn


def explanation_of(turns: Sequence[Turn], settings: Mapping[str, Any], found: RunEvidence) -> Explanation:
    """`settings` are those of the run, as run.json keeps them; empty where they are not known."""
    of_asr: Any = settings.get("asr")
    conditions = Conditions(
        book=found.evidence.work_book,
        ceilings=found.evidence.ceilings,
        calibration=found.evidence.calibration,
        flushed=of_asr.get("flush") if isinstance(of_asr, Mapping) else None,
        tail_s=TAIL_S,
        full_size_voxcpm2=found.is_full_size_voxcpm2,
        surroundings=Surroundings(last_level_cache_bytes=found.cache_bytes, call_s=found.call_s),
    )
    return Explanation(turns, found.evidence, conditions)
