"""Point 3: ten thousand turns that chance has made, with speculation, discarded work and thinking."""

import itertools
import random
from collections import Counter

from profiling.critical_path import CriticalPath, critical_path
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.proof.graphs import Pipeline, simulated_turn

TURNS = 10_000


def replayed_latency_ns(turn: Turn) -> int:
    """A - S by another way than the walk: from the front, when each step could begin at the earliest."""
    ends: list[int] = []
    for step in turn.steps:
        ready_ns = max((ends[cause] for cause in step.causes), default=step.start_ns)
        held_ns = step.start_ns - ready_ns if step.waited_for else 0
        ends.append(ready_ns + held_ns + step.duration_ns)
    assert turn.first_audio_step is not None and turn.speech_end_ns is not None
    return ends[turn.first_audio_step] - turn.speech_end_ns


def check(made: Pipeline, path: CriticalPath) -> None:
    turn, segments = made.turn, path.segments
    assert path.total_ns == sum(path.totals.values()) == turn.latency_ns == replayed_latency_ns(turn)
    assert path.totals.get(Stage.UNATTRIBUTED, 0) == 0
    assert all(before.end_ns == after.start_ns for before, after in itertools.pairwise(segments))
    if segments:
        assert (segments[0].start_ns, segments[-1].end_ns) == (turn.speech_end_ns, turn.first_audio_ns)
    on_path = {segment.step for segment in segments if segment.step is not None}
    assert not on_path & made.discarded
    for segment in segments:
        assert segment.duration_ns > 0 and (segment.stage is Stage.QUEUE) == (segment.waited_for is not None)


def test_10_000_random_turns_are_contiguous_and_exact_and_leave_nothing_unattributed() -> None:
    rng, seen = random.Random(4), Counter[str]()
    for _ in range(TURNS):
        made = simulated_turn(rng)
        path = critical_path(made.turn)
        assert path is not None
        check(made, path)
        stages = {segment.stage for segment in path.segments}
        seen["thought"] += Stage.LLM_THINKING in stages
        seen["threw work away"] += bool(made.discarded)
        seen["queued"] += Stage.QUEUE in stages
        seen["answered before the decision"] += len(made.turn.steps[_playout(made.turn)].causes) == 2
        seen["decided last"] += bool(stages) and stages <= _AFTER_THE_DECISION
    assert all(count > TURNS / 50 for count in seen.values()), seen


_AFTER_THE_DECISION = {Stage.ENDPOINT_WAIT, Stage.PLAYOUT_BUFFER, Stage.PLAYOUT_LEADING_SILENCE}


def _playout(turn: Turn) -> int:
    assert turn.first_audio_step is not None
    (buffer,) = turn.steps[turn.first_audio_step].causes
    return buffer
