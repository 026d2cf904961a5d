"""A turn as it is known when its first audio leaves, while the reply still plays."""

from dataclasses import replace

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage


def at_first_audio(turn: Turn, at_ns: int, now_ns: int) -> Turn | None:
    """A copy with the playout as far as it goes: the first patch waited until now to be played, and the sound at its
    beginning is silent up to `at_ns`. None while no patch is there. The turn's own record follows when it ends."""
    patch = next((step for step in turn.steps if step.stage is Stage.TTS_FIRST_PATCH), None)
    if patch is None:
        return None
    seen = replace(turn, steps=list(turn.steps), groups=dict(turn.groups), attributes=dict(turn.attributes))
    audible_ns = max(at_ns, patch.end_ns)
    played_ns = min(max(now_ns, patch.end_ns), audible_ns)
    buffered = seen.add(
        Stage.PLAYOUT_BUFFER, patch.end_ns, played_ns, [patch.index], attributes={v.WHAT: "start buffer"}
    )
    seen.first_audio_step = seen.add(Stage.PLAYOUT_LEADING_SILENCE, played_ns, audible_ns, [buffered])
    seen.first_audio_ns = audible_ns
    return seen
