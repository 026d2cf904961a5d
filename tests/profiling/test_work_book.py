"""The work book: formulas over units, kept as JSON."""

import pytest
from pydantic import ValidationError

from profiling.operations import PATCH, TOKEN
from profiling.roofline import BANDWIDTH, COMPUTE, Term
from profiling.work_book import Linear, ModelFigures, OperationWork, TermLaw, WorkBook
from profiling.workload import Work

TOKEN_WORK = OperationWork(
    terms=(
        TermLaw(part="weights", rate="q4_0", flops=Linear(constant=24e9), bytes=Linear(constant=7e9)),
        TermLaw(part="attention", rate="fp16", bytes=Linear(per={"kv_bytes": 1})),
    )
)
PATCH_WORK = OperationWork(
    terms=(TermLaw(part="diffusion", rate="fp32", read="read_cached", flops=Linear(per={"forwards": 2e9})),),
    steps=Linear(constant=3, per={"forwards": 1}),
)
BOOK = WorkBook(
    operations={TOKEN: TOKEN_WORK, PATCH: PATCH_WORK},
    llm=ModelFigures(parameters=12e9, weight_bytes=7e9, elements={"q4_0": 12e9}),
    threads={"llm": 4},
    devices={"llm": "cuda:0"},
)


def test_a_formula_adds_up_its_units_and_takes_one_that_was_not_counted_as_none() -> None:
    law = Linear(constant=5, per={"tokens": 2, "patches": 10})
    assert law.at({"tokens": 3, "patches": 1, "others": 99}) == 21
    assert law.at({}) == 5 and Linear().at({"tokens": 3}) == 0


def test_a_formula_is_never_below_nothing() -> None:
    assert Linear(constant=-5, per={"tokens": 2}).at({"tokens": 1}) == 0


def test_an_operations_work_by_part() -> None:
    terms = TOKEN_WORK.at({"kv_bytes": 5e8})
    assert terms == {"weights": Term(Work(7e9, 24e9), "q4_0"), "attention": Term(Work(5e8, 0), "fp16")}
    ceilings = {"read": 905e9, "q4_0": 50e12, "fp16": 100e12}
    assert 1 / terms["weights"].seconds(ceilings) == pytest.approx(129, abs=0.5)
    assert terms["weights"].bound(ceilings) == BANDWIDTH
    assert terms["weights"].bound(ceilings | {"q4_0": 1e12}) == COMPUTE


def test_serial_steps_are_counted_and_one_where_nothing_is_said() -> None:
    assert PATCH_WORK.steps.at({"forwards": 9}) == 12 and TOKEN_WORK.steps.at({}) == 1


def test_all_ceilings_that_are_needed_are_named() -> None:
    assert BOOK.ceilings == {"q4_0", "fp16", "fp32", "read", "read_cached"} and WorkBook().ceilings == set()


def test_a_book_comes_back_from_json_as_it_was() -> None:
    assert WorkBook.model_validate_json(BOOK.model_dump_json()) == BOOK


def test_a_book_of_a_later_version_is_read_without_what_is_not_known() -> None:
    text = BOOK.model_dump_json().replace('"threads"', '"unheard_of": {"a": 1}, "threads"')
    assert WorkBook.model_validate_json(text) == BOOK


@pytest.mark.parametrize("text", ["{", "[]", '{"operations": {"llm.token": {"terms": [{"part": 1}]}}}'])
def test_a_damaged_book_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        WorkBook.model_validate_json(text)
