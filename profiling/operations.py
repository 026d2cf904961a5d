"""What the engines did in a turn, operation by operation: one pass over sound, one prompt, one token, one patch.

An operation has the units that its laws are written in; the same names stand in a calibration's measurements.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import NamedTuple, cast

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.trace.vocabulary import Stage

VAD, SMART_TURN, ASR_STEP, PREFILL, TOKEN = "vad", "smart_turn", "asr.step", "llm.prefill", "llm.token"
SETUP, FIRST_PATCH, PATCH = "tts.setup", "tts.first_patch", "tts.patch"
OPERATIONS = (VAD, SMART_TURN, ASR_STEP, PREFILL, TOKEN, SETUP, FIRST_PATCH, PATCH)

ENCODED_S, TOKENS, PASSES = "encoded_s", "tokens", "passes"  # of ASR_STEP; TOKENS also of PREFILL
KV_BYTES = "kv_bytes"  # of TOKEN
UNITS = "units"  # of SETUP: phonemes or text tokens
FORWARDS = "forwards"  # of FIRST_PATCH and PATCH: passes through the diffusion module

_OF_STAGE = {
    Stage.VAD: VAD,
    Stage.SMART_TURN: SMART_TURN,
    Stage.ASR_PARTIAL: ASR_STEP,
    Stage.ASR_FINALIZE: ASR_STEP,
    Stage.LLM_PREFILL: PREFILL,
    Stage.LLM_THINKING: TOKEN,
    Stage.LLM_FIRST_PHRASE: TOKEN,
    Stage.LLM_DECODE: TOKEN,
    Stage.TTS_SETUP: SETUP,
    Stage.TTS_FIRST_PATCH: FIRST_PATCH,
    Stage.TTS_PATCHES: PATCH,
}
_INTEGERS: set[type] = {int}
_NUMBERS: set[type] = {int, float}
UNIT_OF_PASS = {  # of an operation in a loop: its unit, and the attribute that holds it for each pass
    TOKEN: (KV_BYTES, v.LLM_KV_BYTES),
    FIRST_PATCH: (FORWARDS, v.TTS_FORWARDS),
    PATCH: (FORWARDS, v.TTS_FORWARDS),
}
IN_LOOPS = tuple(UNIT_OF_PASS)
_PARTS_OF = {
    ASR_STEP: v.ASR_PART_NS,
    SETUP: v.TTS_SETUP_PART_NS,
    FIRST_PATCH: v.TTS_PATCH_PART_NS,
    PATCH: v.TTS_PATCH_PART_NS,
}


class Operation(NamedTuple):
    """`start_ns` to `end_ns` inside the library's calls, of the step `step` of a turn. `parts_ns` sum to at most its
    duration."""

    name: str
    stage: Stage
    step: int
    start_ns: int
    end_ns: int
    units: Mapping[str, float]
    parts_ns: Mapping[str, int] = MappingProxyType({})

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def operations(turn: Turn) -> list[Operation]:
    """All of a turn, in the order of its steps."""
    return [operation for step in turn.steps for operation in operations_of(step)]


def operations_of(step: Step) -> Iterator[Operation]:
    """Those of one step: each pass of a loop by itself, and otherwise the whole step."""
    name = operation_of(step.stage)
    if name is None:
        return
    passes = _passes(step) if name in IN_LOOPS else []
    parts = _parts(name, step)
    if not passes:
        units = {} if name in IN_LOOPS else units_of(name, step)
        parts_ns = {part: sum(values) for part, values in parts.items()}
        yield Operation(name, step.stage, step.index, step.start_ns, step.end_ns, units, parts_ns)
        return
    unit, key = UNIT_OF_PASS[name]
    counted = numbers(step.attributes.get(key))
    for number, (start_ns, end_ns) in enumerate(passes):
        units = {unit: counted[number]} if number < len(counted) else {}
        parts_ns = {part: values[number] for part, values in parts.items() if number < len(values)}
        yield Operation(name, step.stage, step.index, start_ns, end_ns, units, parts_ns)


def _passes(step: Step) -> list[tuple[int, int]]:
    """Start and end of each; those of a loop that is not recorded as such are none."""
    first_ns, starts, ends = step.start_ns, _whole(step, v.START_TIMES_NS), _whole(step, v.END_TIMES_NS)
    return [(first_ns + start, first_ns + end) for start, end in zip(starts, ends, strict=False)]


def _whole(step: Step, key: str) -> list[int]:
    return list(map(int, numbers(step.attributes.get(key))))


def operation_of(stage: Stage) -> str | None:
    """The name of the operation that a step of the stage is, or is a loop of; None for a wait and our own code."""
    return _OF_STAGE.get(stage)


def units_of(name: str, step: Step) -> dict[str, float]:
    """Of a step that is one operation of this name as a whole."""
    if name == ASR_STEP:
        passes = len(numbers(step.attributes.get(v.START_TIMES_NS)))
        known = _known(step, {ENCODED_S: v.ASR_ENCODED_S, TOKENS: v.ASR_TOKENS})
        return known | {PASSES: float(passes)} if passes else known
    if name == PREFILL:
        return _known(step, {TOKENS: v.LLM_EVALUATED_TOKENS})
    return _known(step, {UNITS: v.TTS_UNITS}) if name == SETUP else {}


def _known(step: Step, keys: Mapping[str, str]) -> dict[str, float]:
    found = {unit: numbers(step.attributes.get(key)) for unit, key in keys.items()}
    return {unit: values[0] for unit, values in found.items() if values}


def _parts(name: str, step: Step) -> dict[str, list[int]]:
    """The entries of each part, one per pass where there are passes."""
    template = _PARTS_OF.get(name)
    if template is None:
        return {}
    before, after = template.split("{}")
    return {
        key[len(before) : -len(after)]: list(map(int, known))
        for key, value in step.attributes.items()
        if key.startswith(before) and key.endswith(after) and (known := numbers(value))
    }


def numbers(value: Attribute | None) -> list[float]:
    """A number, or several, as a list; empty where one of them is no finite number."""
    if isinstance(value, tuple):  # as a turn keeps them, and sooner told than any other sequence
        values = cast(list[float], list(value))
    else:
        values = cast(
            list[float], list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        )
    kinds = set[type](map(type, values))
    return values if kinds == _INTEGERS or (kinds <= _NUMBERS and all(map(isfinite, values))) else []
