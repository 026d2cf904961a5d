"""When a reply was heard in the page: joined to its turn as an extension. A stays where the sound leaves the server."""

from agent.web.messages import HeardReport
from profiling.trace import vocabulary as v
from profiling.trace.clock import NS_PER_S
from profiling.trace.timeline import Turn

MOST_ERROR_MS = 500.0  # of the clocks: beyond it a report tells nothing
MOST_AFTER_NS = 10 * NS_PER_S


def join(report: HeardReport, turn: Turn, first_audio_ns: int, now_ns: int) -> bool:
    """Put the report on the turn; False when it cannot be true, or when one was there before."""
    heard_ns = round((report.page_ms + report.offset_ms) * 1e6)
    error_ns = round(report.error_ms * 1e6)
    possible = first_audio_ns - error_ns <= heard_ns <= min(now_ns + NS_PER_S, first_audio_ns + MOST_AFTER_NS)
    if v.TURN_HEARD_NS in turn.attributes or report.error_ms > MOST_ERROR_MS or not possible:
        return False
    turn.attributes[v.TURN_HEARD_NS] = heard_ns
    turn.attributes[v.TURN_HEARD_ERROR_S] = error_ns / NS_PER_S
    turn.attributes[v.TURN_HEARD_ESTIMATED] = report.estimated
    if report.jitter_buffer_ms is not None:
        turn.attributes[v.TURN_HEARD_JITTER_BUFFER_S] = report.jitter_buffer_ms / 1e3
    if report.output_ms is not None:
        turn.attributes[v.TURN_HEARD_OUTPUT_S] = report.output_ms / 1e3
    return True


def heard_ns(turn: Turn) -> int | None:
    value = turn.attributes.get(v.TURN_HEARD_NS)
    return value if isinstance(value, int) else None


def error_s(turn: Turn) -> float | None:
    value = turn.attributes.get(v.TURN_HEARD_ERROR_S)
    return value if isinstance(value, float) else None
