"""What the endpoint decided, on the turn; and what-if against the same conversation with another hangover."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from agent.scenario import Utterance
from agent.settings import Settings, load
from profiling.changes.waits import Hangover, NoEndpointWait
from profiling.critical_path import critical_path
from profiling.evidence import Evidence
from profiling.report.endpoint import endpoint_line
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.what_if import what_if
from profiling.work_book import WorkBook
from tests.fakes.engines import silence, speech
from tests.fakes.talk import Talk, says, talk, utterance

SURE, UNSURE, UNFINISHED = 0.9, 0.4, 0.01


def answered(answers: Sequence[float], said: str | Utterance = "tell me a story", hangover_s: float = 0.2) -> Turn:
    def prepare(result: Talk) -> None:
        result.engines.smart_turn.answers += answers  # type: ignore[union-attr]

    given = says(said) if isinstance(said, str) else said
    (ended,) = talk([given], ["Once upon a time."], settings=endpoint(hangover_s), prepare=prepare).ended
    assert ended.turn.end_reason is EndReason.COMPLETED
    return ended.turn


def endpoint(hangover_s: float) -> Settings:
    return load(flags={"endpoint": {"hangover_s": hangover_s}})


def told(turn: Turn, key: str) -> object:
    return turn.groups[(v.ENDPOINT, None)][key]


@pytest.mark.parametrize(
    ("answers", "said", "kind", "chosen_s"),
    [
        ([SURE], "tell me a story", "smart_turn", [0.2]),
        ([UNSURE] * 3, "tell me a story", "chosen_hangover", [0.761]),
        ([UNFINISHED] * 3, "tell me a story", "max_hangover", [1.2]),
        ([UNSURE, SURE], "tell me a story", "smart_turn", [0.761, 0.2]),
        ([UNSURE] * 3, "tell me a story and", "max_hangover", [1.2]),
        ([SURE] * 3, "tell me a story and", "chosen_hangover", [0.937]),
    ],
)
def test_every_decision_is_on_the_turn_with_its_cost(
    answers: list[float], said: str, kind: str, chosen_s: list[float]
) -> None:
    turn = answered(answers, said)
    waits_s, costs_s, at_s = (
        told(turn, key) for key in (v.ENDPOINT_DECIDED_WAIT_S, v.ENDPOINT_DECIDED_COST_S, v.ENDPOINT_DECIDED_AT_S)
    )
    assert isinstance(waits_s, tuple) and isinstance(costs_s, tuple) and isinstance(at_s, tuple)
    assert len(waits_s) == len(costs_s) == len(at_s)
    assert told(turn, v.ENDPOINT_KIND) == kind
    assert list(dict.fromkeys(waits_s)) == pytest.approx(chosen_s, abs=0.001)
    assert at_s == tuple(sorted(at_s)) and costs_s == tuple(sorted(costs_s, reverse=True))
    ends_s = [at + cost for at, cost in zip(at_s, costs_s, strict=True)]
    assert ends_s == pytest.approx([ends_s[0]] * len(ends_s)), "each decision's cost reaches to the same end"
    assert (costs_s[-1] == 0) == (kind == "smart_turn")
    line = endpoint_line(turn)
    assert line is not None and line.count("wait for") == len(waits_s)


@pytest.mark.parametrize("answers", [[SURE], [UNSURE] * 3, [UNFINISHED] * 3, [UNSURE, SURE], [UNFINISHED, 0.3, SURE]])
def test_the_waits_of_a_silence_follow_each_other_and_the_path_sums_exactly(answers: list[float]) -> None:
    turn = answered(answers)
    waits = [step for step in turn.steps if step.stage is Stage.ENDPOINT_WAIT]
    assert waits[0].start_ns == turn.speech_end_ns
    for before, after in itertools.pairwise(waits):
        assert after.start_ns == before.end_ns and after.causes == (before.index,)
    path = critical_path(turn)
    assert path is not None and path.total_ns == turn.latency_ns == sum(path.totals.values())
    assert Stage.UNATTRIBUTED not in path.totals
    assert path.totals[Stage.ENDPOINT_WAIT] == waits[-1].end_ns - waits[0].start_ns


def test_a_pause_that_the_user_ends_is_counted_and_its_decisions_are_not_those_of_the_end() -> None:
    sound = np.concatenate([speech("tell me a"), silence(0.6), speech("story"), silence(0.3)])
    turn = answered([UNFINISHED, UNFINISHED, SURE], utterance(sound, "absolute", 0.5, 1.4))
    assert told(turn, v.ENDPOINT_PAUSES) == 1
    assert told(turn, v.ENDPOINT_DECIDED_PROBABILITY) == pytest.approx((SURE,))
    asked = [step for step in turn.steps if step.stage is Stage.SMART_TURN]
    assert [step.attributes[v.ENDPOINT_PROBABILITY] for step in asked] == [UNFINISHED, UNFINISHED, SURE]
    line = endpoint_line(turn)
    assert line is not None and line.startswith("1 pause did not end the turn; ")


def test_a_fixed_hangover_has_no_decisions() -> None:
    (ended,) = talk([says("hello")], ["Hi."], settings=load(flags={"endpoint": {"mode": "hangover"}})).ended
    assert told(ended.turn, v.ENDPOINT_KIND) == "hangover"
    assert v.ENDPOINT_DECIDED_AT_S not in ended.turn.groups[(v.ENDPOINT, None)] and endpoint_line(ended.turn) is None


@pytest.mark.parametrize("answers", [[SURE], [UNSURE] * 3, [UNSURE, SURE]])
@pytest.mark.parametrize("hangover_s", [0.1, 0.2, 0.35])
def test_what_another_hangover_would_do_is_what_it_does(answers: list[float], hangover_s: float) -> None:
    asked = what_if([answered(answers)], [Hangover(hangover_s)], Evidence(WorkBook(), None, {}))
    really_ns = answered(answers, hangover_s=hangover_s).latency_ns
    assert really_ns is not None
    packet_s = 0.02  # frames of 32 ms are judged when a packet of 20 ms completes them
    assert asked.latency.after.low - packet_s <= really_ns / 1e9 <= asked.latency.after.high + packet_s


@pytest.mark.parametrize("answers", [[SURE], [UNSURE] * 3, [UNSURE, SURE]])
def test_without_the_wait_nothing_of_the_silence_is_left(answers: list[float]) -> None:
    turn = answered(answers)
    path = critical_path(turn)
    assert path is not None and turn.latency_ns is not None
    result = what_if([turn], [NoEndpointWait()], Evidence(WorkBook(), None, {}))
    without_s = (turn.latency_ns - path.totals[Stage.ENDPOINT_WAIT]) / 1e9
    assert result.latency.after.value == pytest.approx(without_s, abs=1e-6)
