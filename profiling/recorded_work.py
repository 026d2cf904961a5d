"""The work of a turn's steps, written on them from the run's work book."""

from dataclasses import replace

from profiling.operations import operations_of
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute, Step, Turn
from profiling.work_book import WorkBook


def add_work(turn: Turn, book: WorkBook) -> None:
    """Put floating-point operations, bytes read and serial steps on every step whose work is known; what an engine has
    told by itself stays."""
    turn.steps[:] = [_with_work(step, book) for step in turn.steps]


def _with_work(step: Step, book: WorkBook) -> Step:
    flops = read = steps = 0.0
    known = False
    for operation in operations_of(step):
        work = book.operations.get(operation.name)
        if work is None:
            return step
        known = True
        steps += work.steps.at(operation.units)
        for term in work.terms:
            flops += term.flops.at(operation.units)
            read += term.bytes.at(operation.units)
    if not known:
        return step
    counted: dict[str, Attribute] = {v.WORK_FLOPS: round(flops), v.WORK_BYTES: round(read), v.WORK_STEPS: round(steps)}
    return replace(step, attributes=counted | dict(step.attributes))
