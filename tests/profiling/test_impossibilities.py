"""A planted impossible prefill, token loop and patch loop: gone from all summaries, told once, the cause named."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from profiling import operations as op
from profiling.bottleneck import Attributor
from profiling.changes.change import ChangeRefused
from profiling.changes.waits import NoEndpointWait
from profiling.elasticity import elasticities
from profiling.evidence import Evidence
from profiling.figures import figures
from profiling.impossibilities import Impossibilities, impossibilities
from profiling.patch_loop import loop_verdicts
from profiling.plausibility import Cause, Surroundings
from profiling.predictions.conditions import Conditions
from profiling.report.explanation import Explanation
from profiling.report.terminal import print_summary
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.what_if import what_if
from profiling.work_book import Linear, OperationWork, TermLaw
from tests.profiling.predictions.simulated import ARITHMETIC, BOOK, CEILINGS, Simulated, Voice

PATCH_WORK = OperationWork(terms=(TermLaw(part="patch", rate=ARITHMETIC, bytes=Linear(constant=5e9)),))
KNOWN = BOOK.model_copy(
    update={"operations": {**BOOK.operations, op.FIRST_PATCH: PATCH_WORK, op.PATCH: PATCH_WORK}},
)
PLACE = 4  # of the planted turn
PLANTED = {  # its stage, the cause, and what is said of it
    "prefill": (Stage.LLM_PREFILL, Cause.PREFIX_CACHE, "a prefix cache answered about 9"),
    "token": (Stage.LLM_FIRST_PHRASE, Cause.WRONG_COUNT, "a wrong token count"),
    "patch": (Stage.TTS_PATCHES, Cause.WRONG_COUNT, "a wrong patch count"),
}


def planted(kind: str) -> Turn:
    world = Simulated(50, Voice(patch_s=0.0005) if kind == "patch" else Voice(), now_ns=10**12)
    more = {"prefill": {"prefill_s": 0.005}, "token": {"token_s": 0.0005}, "patch": {}}[kind]
    return world.turn(99, **more)


class Case:
    """A run of eight turns as they can be, and the same with one that cannot."""

    def __init__(self, kind: str) -> None:
        self.stage, self.cause, self.said = PLANTED[kind]
        self.name = "wrong patch count" if kind == "patch" else self.cause.value
        self.engine = "tts" if kind == "patch" else "llm"
        world = Simulated(3)
        self.clean = world.turns(8)
        self.turns = [*self.clean[:PLACE], planted(kind), *self.clean[PLACE:]]
        self.evidence = Evidence(KNOWN, world.calibration(), CEILINGS)
        self.impossible = impossibilities(self.turns, KNOWN, CEILINGS)

    def attributor(self, turns: list[Turn]) -> Attributor:
        found = impossibilities(turns, KNOWN, CEILINGS)
        return Attributor(turns, KNOWN, CEILINGS, self.evidence.calibration, impossible=found)

    def explanation(self) -> Explanation:
        return Explanation(self.turns, self.evidence, Conditions(KNOWN, CEILINGS, self.evidence.calibration))


@pytest.fixture(params=sorted(PLANTED))
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def console(width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)


def text_of(to: Console) -> str:
    return to.file.getvalue()  # type: ignore[attr-defined]


def summary(turns: list[Turn], impossible: Impossibilities) -> str:
    to = console()
    print_summary(to, turns, impossible)
    return text_of(to)


def median_row(text: str) -> str:
    (row,) = re.findall(r"^  median .*$", text, re.MULTILINE)
    return row


def test_it_is_found_where_it_was_planted_and_nowhere_else(case: Case) -> None:
    assert list(case.impossible.by_turn) == [PLACE]
    (step,) = case.impossible.of(PLACE)
    assert case.turns[PLACE].steps[step].stage is case.stage
    assert case.impossible.of(PLACE)[step].cause is case.cause
    assert case.impossible.engines(PLACE) == {case.engine} and case.impossible.of(0) == {}


def test_the_medians_are_those_without_the_turn(case: Case) -> None:
    with_it, without = summary(case.turns, case.impossible), summary(case.clean, Impossibilities())
    assert median_row(with_it) == median_row(without) and "n = 8" in median_row(with_it)
    assert median_row(with_it) != median_row(summary(case.turns, Impossibilities()))
    assert re.search(r"^  5 .* completed, impossible$", with_it, re.MULTILINE)


def test_it_is_told_once_with_how_many_and_the_cause(case: Case) -> None:
    to = console()
    print_summary(to, case.turns, case.impossible)
    explanation = case.explanation()
    explanation.print_run(to)
    before_the_predictions = " ".join(text_of(to).split("Predicted and measured")[0].split())
    assert before_the_predictions.count("1 of 9 turns has an impossible step and is left out of the medians") == 1
    assert before_the_predictions.count(case.said) == 1


def test_the_engine_is_split_as_without_the_turn(case: Case) -> None:
    with_it, without = case.attributor(case.turns), case.attributor(case.clean)
    of_engine = [
        [
            (one.stages, one.count, one.seconds, one.shares, one.verdict)
            for one in run.run()
            if _is(case.engine, one.operation)
        ]
        for run in (with_it, without)
    ]
    assert of_engine[0] == of_engine[1] != []
    others = {one.operation: one.count for one in with_it.run() if not _is(case.engine, one.operation)}
    alone = {one.operation: one.count for one in without.run() if not _is(case.engine, one.operation)}
    assert others and all(others[name] > alone[name] for name in others), "other engines count as ever"
    operation = op.PATCH if case.engine == "tts" else op.PREFILL
    assert with_it.turns_of(operation) == 8 and with_it.turns_of(op.ASR_STEP) == 9


def _is(engine: str, operation: str) -> bool:
    return operation.startswith(engine)


def test_what_would_change_it_what_was_reached_and_the_loops_are_as_without_the_turn(case: Case) -> None:
    with_it, without = case.attributor(case.turns), case.attributor(case.clean)
    assert elasticities(with_it, case.turns) == elasticities(without, case.clean)
    assert elasticities(with_it, case.turns, PLACE) == []
    if case.engine == "llm":
        assert figures(with_it) == figures(without)
    of_engine = op.TOKEN if case.engine == "llm" else op.PATCH
    loops = [[one for one in loop_verdicts(run) if one.loop == _loop(of_engine)] for run in (with_it, without)]
    assert loops[0] == loops[1]


def _loop(operation: str) -> str:
    return "step overhead" if operation == op.TOKEN else "patch loop"


def test_the_turns_own_table_marks_the_step_and_gives_no_verdict_on_the_engine(case: Case) -> None:
    to = console()
    case.explanation().print_turn(to, PLACE)
    lines = text_of(to).splitlines()
    marked = [line for line in lines if "impossible: " in line]
    assert len(marked) == 1 and marked[0].endswith(f"impossible: {case.name}")
    others = [line for line in lines if line.endswith("no verdict on this engine")]
    assert len(others) == (1 if case.engine == "llm" else 2)
    assert case.said in " ".join(text_of(to).split()) and "times too fast" in " ".join(text_of(to).split())
    assert "final transcript" in text_of(to), "other engines have their row"
    assert max(map(len, lines)) <= 100
    quiet = console()
    case.explanation().print_turn(quiet, 0)
    assert "mpossible" not in text_of(quiet) and "no verdict" not in text_of(quiet)


def test_the_shares_are_per_turn_of_those_that_are_left(case: Case) -> None:
    to, clean = console(), console()
    case.explanation().print_run(to)
    Explanation(case.clean, case.evidence, Conditions(KNOWN, CEILINGS, case.evidence.calibration)).print_run(clean)
    name = "voice later patches" if case.engine == "tts" else "LLM first phrase"
    row = rf"^  {name} .*$"
    assert re.findall(row, text_of(to), re.MULTILINE) == re.findall(row, text_of(clean), re.MULTILINE) != []


def test_what_if_leaves_the_turn_out_and_says_so(case: Case) -> None:
    with_it, without = (what_if(turns, [NoEndpointWait()], case.evidence) for turns in (case.turns, case.clean))
    assert (with_it.turns, with_it.rows, with_it.latency) == (8, without.rows, without.latency)
    (told,) = set(with_it.caveats) - set(without.caveats)
    assert told.startswith("1 of 9 turns has an impossible step and is left out: ") and case.said in told
    with pytest.raises(ChangeRefused, match=f"nothing follows from it: .*{case.said}"):
        what_if(case.turns, [NoEndpointWait()], case.evidence, only=case.turns[PLACE])
    with pytest.raises(ChangeRefused, match="Every turn has an impossible step"):
        what_if([case.turns[PLACE]], [NoEndpointWait()], case.evidence)


def test_a_run_that_is_impossible_throughout_has_no_median_and_no_verdict() -> None:
    turns = [replace_index(planted("token"), index) for index in range(3)]
    found = impossibilities(turns, KNOWN, CEILINGS)
    text = summary(turns, found)
    assert "median  " not in text
    assert "3 of 3 turns have an impossible step and are left out" in " ".join(text.split())
    assert "tokens in 3 turns (likeliest cause of the worst: a wrong token count)" in " ".join(text.split())
    run = Attributor(turns, KNOWN, CEILINGS, None, impossible=found)
    assert not any(_is("llm", one.operation) for one in run.run())
    assert elasticities(run, turns) == [] and figures(run).decode_alone_s is None


def replace_index(turn: Turn, index: int) -> Turn:
    return replace(turn, index=index)


def test_several_causes_are_told_together_and_turns_without_a_latency_too() -> None:
    interrupted = planted("patch")
    interrupted.first_audio_ns, interrupted.end_reason = None, EndReason.INTERRUPTED
    turns = [planted("prefill"), planted("token"), planted("prefill"), interrupted, *Simulated(3).turns(3)]
    told = impossibilities(turns, KNOWN, CEILINGS, Surroundings(last_level_cache_bytes=1e10))
    assert told.reasons.startswith("prefill in 2 turns (likeliest cause of the worst: a prefix cache")
    assert "tokens in 1 turn (likeliest cause: weights that stayed in the processor's cache)" in told.reasons
    text = " ".join(summary(turns, told).split())
    assert "4 of 7 turns have an impossible step" in text and "n = 3" in text
    assert "interrupted, impossible" in text


def test_without_work_or_ceilings_nothing_is_impossible() -> None:
    turns = [planted(kind) for kind in PLANTED]
    assert impossibilities(turns, KNOWN, {}).by_turn == {}
    assert impossibilities(turns, KNOWN.model_copy(update={"operations": {}}), CEILINGS).reasons == ""
