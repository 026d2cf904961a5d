"""The fixed cost and what it is made of, on phrases whose set-up and patches are planted."""

import numpy as np
import pytest

from profiling import operations as op
from profiling.calibration import FirstAudio, Sample
from profiling.interval import Interval
from profiling.studies.fixed_cost import fixed_cost, fixed_cost_finding, minus

PATCH_S, SOUND_S = 0.076, 0.16
LENGTHS = ((20, 4), (90, 14), (35, 6), (120, 18), (55, 9), (70, 11))  # units, patches


def said(
    fixed_s: float = 0.02,
    unit_s: float = 0.001,
    excess_s: float = 0.0,
    noise: float = 0.0,
    rounds: int = 2,
    seed: int = 7,
) -> tuple[list[Sample], list[FirstAudio]]:
    """Set-up reads the text in a fixed time and encodes it unit by unit."""
    random = np.random.default_rng(seed)
    setups: list[Sample] = []
    phrases: list[FirstAudio] = []
    for units, patches in LENGTHS * rounds:
        read_s, encode_s = fixed_s * (1 + noise * random.normal()), unit_s * units * (1 + noise * random.normal())
        patch_s = np.full(patches, PATCH_S) * (1 + noise * random.normal(size=patches))
        patch_s[0] += excess_s
        setups.append(
            Sample(
                operation=op.SETUP,
                duration_s=read_s + encode_s,
                units={op.UNITS: units},
                parts_s={"read": read_s, "prompt": 0.0, "encode": encode_s},
            )
        )
        phrases.append(
            FirstAudio(
                units=units,
                setup_s=read_s + encode_s,
                patch_ends_s=tuple(read_s + encode_s + np.cumsum(patch_s)),
                audio_ends_s=tuple(SOUND_S * (n + 1) for n in range(patches)),
            )
        )
    return setups, phrases


def test_where_set_up_is_all_of_it_nothing_remains() -> None:
    found = fixed_cost(*said())
    assert found.units == 62.5
    assert found.intercept.value == pytest.approx(0.0825) and found.at(found.setup).value == pytest.approx(0.0825)
    assert found.remains.value == pytest.approx(0, abs=1e-9) and found.unexplained.value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("excess_s", [0.03, -0.03])
def test_a_first_patch_unlike_the_others_remains_signed_and_is_explained(excess_s: float) -> None:
    found = fixed_cost(*said(excess_s=excess_s))
    assert found.remains.value == pytest.approx(excess_s)
    assert found.first_patch.value == pytest.approx(excess_s)
    assert found.unexplained.value == pytest.approx(0, abs=1e-9)


def test_each_part_has_its_growth_and_those_without_time_are_left_out() -> None:
    finding = fixed_cost_finding("a voice", "phoneme", *said(excess_s=0.01))
    rows = {row[0]: row[1:] for row in finding.rows}
    assert list(rows) == ["read", "encode", "set-up", "first patch's excess", "unexplained", "intercept"]
    assert rows["encode"][0] == "62.5" and float(rows["encode"][4]) == pytest.approx(1)
    assert float(rows["read"][3]) == pytest.approx(20) and rows["first patch's excess"][0] == "+10"
    assert float(rows["intercept"][4]) == pytest.approx(1) and rows["intercept"][2] == "100 %"
    assert all(len(row) == len(finding.columns) for row in finding.rows)


def test_the_sentence_tells_it() -> None:
    sentence = fixed_cost_finding("a voice", "phoneme", *said(excess_s=0.01)).sentence
    assert sentence.startswith("A phrase of 62 phonemes pays 92.5 ms (")
    assert "Set-up takes 82.5 ms, most of it encode (62.5 ms), and grows by 1 ms a phoneme; +10 ms (" in sentence
    assert sentence.endswith("explains +10 ms.")


def test_set_up_that_does_not_grow_is_said_not_to() -> None:
    assert "is not seen to grow" in fixed_cost_finding("a voice", "text token", *said(unit_s=0, noise=0.05)).sentence


def test_an_intercept_that_may_be_nothing_is_no_fixed_cost() -> None:
    sentence = fixed_cost_finding("a voice", "phoneme", *said(fixed_s=0.0001, unit_s=0, noise=0.3)).sentence
    assert sentence.startswith("No fixed cost was found")


def test_under_noise_the_intercept_and_what_remains_lie_within_their_bounds() -> None:
    found = [fixed_cost(*said(noise=0.05, seed=seed)) for seed in range(20)]
    assert sum(one.intercept.low <= 0.0825 <= one.intercept.high for one in found) >= 18
    assert sum(one.remains.low <= 0 <= one.remains.high for one in found) >= 18


def test_phrases_of_too_few_lengths_give_a_sentence() -> None:
    setups, phrases = said()
    with pytest.raises(ValueError, match="of at least 6 lengths"):
        fixed_cost(setups, phrases[:3])


def test_a_difference_is_less_sure_than_either() -> None:
    difference = minus(Interval(value=10, low=7, high=13, n=9), Interval(value=4, low=0, high=8, n=5))
    assert difference == Interval(value=6, low=1, high=11, n=5)
