"""Engines: planted costs of a server come out, whatever the machine does meanwhile."""

import numpy as np
import pytest

from profiling.studies.engines import LOCAL, SERVED, Request, engines_finding


def pairs(request_s: float, token_s: float, *, noise_s: float = 1e-4, drift: float = 1.0) -> list[Request]:
    """Every pair on a machine that is slower than for the one before."""
    random, found = np.random.default_rng(0), []
    for pair in range(24):
        slow, length = drift**pair, (48, 96, 192)[pair % 3]
        for engine in (LOCAL, SERVED):
            added, each = (request_s, token_s) if engine == SERVED else (0.0, 0.0)
            prefill = slow * length * 2e-3 + added + float(random.normal(0, noise_s))
            tokens = tuple(slow * 8e-3 + each + float(random.normal(0, noise_s)) for _ in range(12))
            found.append(Request(engine, pair, length, prefill, prefill, tokens))
    return found


def last(requests: list[Request]) -> tuple[float, float]:
    row = engines_finding("m", requests).rows[-1]
    return float(row[1]), float(row[3])


def test_planted_costs_come_out() -> None:
    assert last(pairs(0.006, 0.0011)) == pytest.approx((6.0, 1.1), abs=0.15)


def test_a_machine_that_slows_down_does_not_move_them() -> None:
    assert last(pairs(0.006, 0.0011, drift=1.03)) == pytest.approx((6.0, 1.1), abs=0.15)


def test_the_sentence_tells_both_costs() -> None:
    sentence = engines_finding("m", pairs(0.006, 0.0011)).sentence
    assert " ms later (+" in sentence and "further one 1." in sentence and "+14 % of an in-process one" in sentence


def test_no_cost_is_not_told_from_zero() -> None:
    sentence = engines_finding("m", pairs(0.0, 0.0)).sentence
    assert sentence.count("not measurably later") == 2 and "%" not in sentence


def test_each_length_has_both_engines_and_their_difference() -> None:
    rows = engines_finding("m", pairs(0.006, 0.0011)).rows
    assert [row[0] for row in rows[:3]] == ["48 tokens, in-process", "48 tokens, over HTTP", "48 tokens, difference"]
    assert len(rows) == 10 and {row[-1] for row in rows} == {"8", "24"}


def test_prompts_that_one_engine_answered_are_left_out() -> None:
    requests = pairs(0.006, 0.0011)
    assert engines_finding("m", requests[:-1]).rows[-1][-1] == "23"
    with pytest.raises(ValueError, match="no prompt"):
        engines_finding("m", [request for request in requests if request.engine == LOCAL])
