"""Work on the steps of a turn, from the work book."""

import pytest

from profiling import operations as op
from profiling.recorded_work import add_work
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from profiling.work_book import Linear, OperationWork, TermLaw, WorkBook

BOOK = WorkBook(
    operations={
        op.PREFILL: OperationWork(
            terms=(TermLaw(part="prefill", rate="r", flops=Linear(per={op.TOKENS: 7}), bytes=Linear(constant=100)),)
        ),
        op.PATCH: OperationWork(
            terms=(
                TermLaw(part="a", rate="r", flops=Linear(per={op.FORWARDS: 10})),
                TermLaw(part="b", rate="r", bytes=Linear(constant=5)),
            ),
            steps=Linear(constant=1, per={op.FORWARDS: 1}),
        ),
        op.TOKEN: OperationWork(
            terms=(TermLaw(part="t", rate="r", flops=Linear(constant=3), bytes=Linear(constant=9)),)
        ),
    }
)


@pytest.fixture
def turn() -> Turn:
    turn = Turn("c", 1, 0)
    turn.add(Stage.ENDPOINT_WAIT, 0, 10)
    turn.add(Stage.LLM_PREFILL, 10, 20, attributes={v.LLM_EVALUATED_TOKENS: 4, "own": "kept"})
    times = {v.START_TIMES_NS: [0, 5], v.END_TIMES_NS: [4, 9]}
    turn.add(Stage.LLM_DECODE, 20, 30, attributes=times | {v.WORK_BYTES: 77})
    turn.add(Stage.TTS_PATCHES, 30, 40, attributes=times | {v.TTS_FORWARDS: [9, 3]})
    turn.add(Stage.TTS_SETUP, 40, 50)
    return turn


def work(turn: Turn, index: int) -> tuple[object, object, object]:
    attributes = turn.steps[index].attributes
    return tuple(attributes.get(name) for name in (v.WORK_FLOPS, v.WORK_BYTES, v.WORK_STEPS))  # type: ignore[return-value]


def test_each_operation_of_a_step_counts(turn: Turn) -> None:
    add_work(turn, BOOK)
    assert work(turn, 1) == (28, 100, 1)
    assert work(turn, 3) == (120, 10, 14)
    assert turn.steps[1].attributes["own"] == "kept"


def test_what_the_engine_has_told_stays(turn: Turn) -> None:
    add_work(turn, BOOK)
    assert work(turn, 2) == (6, 77, 2)


def test_a_wait_and_an_engine_that_is_not_in_the_book_get_none(turn: Turn) -> None:
    add_work(turn, BOOK)
    assert work(turn, 0) == work(turn, 4) == (None, None, None)
    before = list(turn.steps)
    add_work(turn, WorkBook())
    assert turn.steps == before


def test_times_and_causes_do_not_change(turn: Turn) -> None:
    before = [(s.index, s.stage, s.start_ns, s.end_ns, s.causes) for s in turn.steps]
    add_work(turn, BOOK)
    assert [(s.index, s.stage, s.start_ns, s.end_ns, s.causes) for s in turn.steps] == before
