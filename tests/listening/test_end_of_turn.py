"""How long a silence is waited for, from smart-turn's probability and from the words."""

import pytest

from agent.errors import TurnscopeError
from agent.listening.end_of_turn import EndOfTurn, TextEnd, text_end, together
from agent.settings import EndpointSettings, load

RULE = EndOfTurn(
    EndpointSettings(
        hangover_s=0.2,
        max_hangover_s=1.2,
        smart_turn_threshold=0.5,
        unfinished_threshold=0.05,
        finished_text_odds=3,
        unfinished_text_odds=20,
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tell me a story.", TextEnd.FINISHED),
        ("What is the time?", TextEnd.FINISHED),
        ("What are you looking for?", TextEnd.UNKNOWN),
        ('He said "stop!"', TextEnd.FINISHED),
        ("I would like,", TextEnd.UNFINISHED),
        ("I would like...", TextEnd.UNFINISHED),
        ("I would like \N{EM DASH}", TextEnd.UNFINISHED),
        ("tell me a story and", TextEnd.UNFINISHED),
        ("Tell me a story And.", TextEnd.UNFINISHED),
        ("What is the?", TextEnd.UNFINISHED),
        ("so um", TextEnd.UNFINISHED),
        ("we went to", TextEnd.UNFINISHED),
        ("That is what I am looking for.", TextEnd.UNKNOWN),
        ("tell me a story", TextEnd.UNKNOWN),
        ("go on", TextEnd.UNKNOWN),
        ("", TextEnd.UNKNOWN),
        (" . ", TextEnd.UNKNOWN),
    ],
)
def test_how_a_text_ends(text: str, expected: TextEnd) -> None:
    assert text_end(text) is expected


def test_the_wait_falls_with_the_probability_between_its_bounds() -> None:
    probabilities = [k / 100 for k in range(101)]
    waits = [RULE.wait_s(probability, TextEnd.UNKNOWN) for probability in probabilities]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] == waits[5] == 1.2 and waits[50] == waits[100] == 0.2
    graded = waits[6:50]
    assert len(set(graded)) == len(graded) and all(0.2 < wait < 1.2 for wait in graded)


def test_a_finished_text_shortens_the_wait_and_an_unfinished_one_lengthens_it() -> None:
    for probability in (0.1, 0.2, 0.4):
        finished, unknown, unfinished = (
            RULE.wait_s(probability, text) for text in (TextEnd.FINISHED, TextEnd.UNKNOWN, TextEnd.UNFINISHED)
        )
        assert 0.2 <= finished < unknown < unfinished <= 1.2
    assert RULE.wait_s(0.6, TextEnd.UNKNOWN) == 0.2 < RULE.wait_s(0.6, TextEnd.UNFINISHED)
    assert RULE.wait_s(0.99, TextEnd.UNFINISHED) == 0.2, "the sound is as sure as can be"


def test_by_hand() -> None:
    """Odds of 0.25 are 1:3; three times as likely they are even, which is the threshold. Between 0.5 (log odds 0) and
    0.05 (ln 1/19 = -2.944) lies ln 1/3 = -1.099, at 0.373 of the way."""
    assert RULE.wait_s(0.25, TextEnd.FINISHED) == pytest.approx(0.2)
    assert RULE.wait_s(0.25, TextEnd.UNKNOWN) == pytest.approx(0.2 + 0.373, abs=0.001)


def test_answers_count_together_by_their_log_odds() -> None:
    assert together([0.3]) == pytest.approx(0.3) and together([0.2, 0.8]) == pytest.approx(0.5)
    assert together([0.01, 0.9]) < 0.3 < together([0.01, 0.99, 0.99]) and together([0.0, 1.0]) == pytest.approx(0.5)


def test_smart_turn_is_asked_again_on_the_way() -> None:
    assert RULE.asking_at_s == pytest.approx((0.2, 0.4, 0.7))
    assert EndOfTurn(EndpointSettings(smart_turn_questions=1)).asking_at_s == (0.2,)
    assert [RULE.questions_by(silence_s) for silence_s in (0.1, 0.3, 0.5, 1.0)] == [0, 1, 2, 3]


def test_equal_thresholds_are_one() -> None:
    rule = EndOfTurn(EndpointSettings(smart_turn_threshold=0.3, unfinished_threshold=0.3))
    assert [rule.wait_s(probability, TextEnd.UNKNOWN) for probability in (0.29, 0.3)] == [1.2, 0.2]


def test_thresholds_in_the_wrong_order_are_a_sentence() -> None:
    with pytest.raises(TurnscopeError, match=r"unfinished_threshold 0\.2 is above smart_turn_threshold 0\.01"):
        load(flags={"endpoint": {"smart_turn_threshold": 0.01}})
