"""A turn as the page draws it: the bars of its waterfall, one line of where the time went, what changed."""

from collections.abc import Iterator, Sequence

from agent.web.messages import Delta, WaterfallRow
from agent.web.service import TurnView
from profiling.critical_path import CriticalPath, Segment, critical_path
from profiling.report.terminal import SUMMARY_PARTS
from profiling.report.wording import LABEL, how_it_ended, why_no_latency
from profiling.trace.clock import seconds
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import Stage

BEFORE_S = 1.0  # of what was done while the user spoke
JOINED_NS = 2_000_000  # steps of a stage that follow each other this closely make one bar
MOST_BARS = 80


def turn_view(turn: Turn, before: Turn | None) -> TurnView:
    path = critical_path(turn)
    if path is None:
        reason = why_no_latency(turn)
        return TurnView(how_it_ended(turn), f"No latency: {reason}.", _bars(turn, None), ())
    parts = _parts(path)
    earlier = critical_path(before) if before is not None else None
    told = ", ".join(f"{label} {value_s * 1e3:.0f}" for label, value_s in parts.items() if value_s >= 0.0005)
    breakdown = f"{seconds(path.total_ns) * 1e3:.0f} ms: {told}"
    return TurnView(how_it_ended(turn), breakdown, _bars(turn, path), _deltas(path, earlier))


def _parts(path: CriticalPath) -> dict[str, float]:
    """Seconds by the parts of the summary."""
    return {
        label: seconds(sum(ns for stage, ns in path.totals.items() if _belongs(stage, members)))
        for label, members in SUMMARY_PARTS.items()
    }


def _belongs(stage: Stage, members: Sequence[str]) -> bool:
    """A part names its stages, or what their names begin with."""
    return any(stage == member or (member.endswith(".") and stage.startswith(member)) for member in members)


def _deltas(path: CriticalPath, before: CriticalPath | None) -> list[Delta]:
    parts, earlier = _parts(path), _parts(before) if before else {}
    total_s = seconds(path.total_ns)
    whole = Delta("latency", "latency", total_s, total_s - seconds(before.total_ns) if before else None)
    return [whole] + [
        Delta(label, label, value_s, value_s - earlier[label] if label in earlier else None)
        for label, value_s in parts.items()
    ]


def _bars(turn: Turn, path: CriticalPath | None) -> list[WaterfallRow]:
    """Steps up to the first audio, and the gaps of the path, in the order of the pipeline."""
    zero_ns = turn.speech_end_ns
    if zero_ns is None:
        return []
    end_ns = turn.first_audio_ns if path else None
    bars: list[WaterfallRow] = []
    for stage in Stage:
        steps = [step for step in turn.steps if step.stage is stage and (end_ns is None or step.start_ns < end_ns)]
        on_path = [segment for segment in path.segments if segment.stage is stage] if path else []
        bars += [_bar(stage, group, on_path, zero_ns) for group in _joined(steps)]
        bars += [_gap(segment, zero_ns) for segment in on_path if segment.kind is None]
    return [bar for bar in bars if bar.end_s >= -BEFORE_S][:MOST_BARS]


def _joined(steps: Sequence[Step]) -> Iterator[list[Step]]:
    group: list[Step] = []
    for step in sorted(steps, key=lambda step: step.start_ns):
        if group and step.start_ns - group[-1].end_ns > JOINED_NS:
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _bar(stage: Stage, steps: Sequence[Step], on_path: Sequence[Segment], zero_ns: int) -> WaterfallRow:
    start_ns, end_ns = steps[0].start_ns, max(step.end_ns for step in steps)
    numbers = {step.index for step in steps}
    path_ns = sum(segment.duration_ns for segment in on_path if segment.step in numbers)
    return WaterfallRow(
        stage,
        LABEL[stage],
        steps[0].kind,
        seconds(start_ns - zero_ns),
        seconds(end_ns - zero_ns),
        seconds(path_ns),
    )


def _gap(segment: Segment, zero_ns: int) -> WaterfallRow:
    note = f"waited for {segment.waited_for}" if segment.waited_for else ""
    start_s, end_s = seconds(segment.start_ns - zero_ns), seconds(segment.end_ns - zero_ns)
    kind = "queue" if segment.stage is Stage.QUEUE else "unattributed"
    return WaterfallRow(segment.stage, LABEL[segment.stage], kind, start_s, end_s, end_s - start_s, note)
