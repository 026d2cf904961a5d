"""Whether a step of the wall clock is in a run's durations.

Turnscope's own turns are on the monotonic clock, and reading a trace converts no time: a stepped wall clock changes
none of their durations. A trace that another program wrote may hold times of day where those should be; a step of
that clock is then in the durations, and the run's two anchors tell how large it was.
"""

from collections.abc import Sequence

from profiling.trace.clock import Anchor, seconds
from profiling.trace.timeline import Turn


def clock_stepped_s(turns: Sequence[Turn], start: Anchor, end: Anchor | None) -> float:
    """How far the clock of the turns' times was set forward in the run, in seconds; 0 for the monotonic clock, and
    where the last anchor is missing."""
    if end is None or not are_times_of_day(turns, start):
        return 0.0
    return seconds(start.stepped_ns(end))


def are_times_of_day(turns: Sequence[Turn], start: Anchor) -> bool:
    """Whether the first turn lies nearer to the run's start on the wall clock than on the monotonic one."""
    if not turns:
        return False
    began_ns = turns[0].speech_start_ns
    return abs(began_ns - start.wall_ns) < abs(began_ns - start.monotonic_ns)
