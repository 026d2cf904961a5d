"""Two runs beside each other: one and the same, what differs, what cannot be compared."""

import shutil
from pathlib import Path

from profiling.compare import are_one, beside, differences, obstacle
from profiling.figures import Figures
from profiling.run import Run, RunWriter, load_run
from profiling.trace.clock import SystemClock
from profiling.work_book import ModelFigures, WorkBook
from tests.profiling.simulated_runs import Pipeline, evidence
from tests.profiling.turns import answered

FOUR_BIT = evidence(Pipeline()).work_book.model_copy(update={"threads": {"llm": 4}, "devices": {"llm": "cpu"}})


def written(parent: Path, model: str = "gemma", **settings: object) -> Run:
    writer = RunWriter(parent, "a", SystemClock(), settings={"llm": {"model": model}, **settings})
    writer.write_turn(answered())
    writer.close(complete=True)
    return load_run(writer.folder)


def of_model(**values: object) -> WorkBook:
    assert FOUR_BIT.llm
    return FOUR_BIT.model_copy(update={"llm": FOUR_BIT.llm.model_copy(update=values)})


def test_a_run_is_itself_from_its_files_and_from_a_copy(tmp_path: Path) -> None:
    run = written(tmp_path)
    copy = Path(shutil.copytree(run.folder, tmp_path / "copy"))
    assert are_one(run, load_run(run.folder / "trace.jsonl")) and are_one(run, load_run(copy))
    (copy / "run.json").unlink()
    assert are_one(run, load_run(copy))


def test_two_runs_of_the_same_conversation_are_two(tmp_path: Path) -> None:
    assert not are_one(written(tmp_path), written(tmp_path))


def test_two_runs_without_turns_and_settings_are_not_taken_for_one(tmp_path: Path) -> None:
    bare = Run(tmp_path, None, (), (), ())
    assert not are_one(bare, bare)


def test_what_differs_is_named_with_both_values(tmp_path: Path) -> None:
    run, before = written(tmp_path), written(tmp_path, "qwen", tts={"model": "piper"})
    other = of_model(elements={"Q8_0": 1e9, "F32": 1e6}).model_copy(update={"threads": {"llm": 2}})
    assert differences(run, run, FOUR_BIT, FOUR_BIT) == []
    assert differences(run, before, FOUR_BIT, other) == [
        "language model gemma (before: qwen)",
        "voice unknown (before: piper)",
        "weights Q4_0 and F32 (before: Q8_0 and F32)",
        "threads of the language model 4 (before: 2)",
    ]


def test_a_folder_without_settings_or_work_differs_in_what_is_not_known(tmp_path: Path) -> None:
    run = written(tmp_path)
    bare = Run(tmp_path, None, run.turns, run.contents, ())
    assert "language model gemma (before: unknown)" in differences(run, bare, FOUR_BIT, WorkBook())
    assert "weights Q4_0 and F32 (before: unknown)" in differences(run, bare, FOUR_BIT, WorkBook())


def test_only_the_same_language_model_is_compared_in_any_format() -> None:
    assert obstacle(FOUR_BIT, FOUR_BIT) is None
    assert obstacle(of_model(weight_bytes=1.0e9, elements={"Q8_0": 1e9}), FOUR_BIT) is None
    larger = of_model(parameters=1.7e9)
    assert (
        obstacle(larger, FOUR_BIT)
        == "The language models are different ones: 1.7 billion parameters, before 1 billion."
    )
    assert obstacle(WorkBook(), FOUR_BIT) == "How much work a token was is not known of the run."
    only_figures = WorkBook(llm=ModelFigures(parameters=1e9, weight_bytes=1e9))
    assert obstacle(FOUR_BIT, only_figures) == "How much work a token was is not known of the run before."


def test_what_both_reached_is_told_as_multiples_as_far_as_it_is_known() -> None:
    before = Figures(0.02, None, None, None, 1e9, 0.0, 40e9, 400e9)
    now = Figures(0.01, None, None, None, 0.5e9, 0.1e9, 40e9, None)
    assert beside(now, before) == (
        "Decoding beside the run before: 2.00 times the speed, 0.60 times the bytes of a token, "
        "1.00 times the bandwidth."
    )
    nothing = Figures(None, None, None, None, None, None, None, None)
    assert beside(nothing, before) == "Nothing of decoding is known of both runs."
