"""The law of a voice: its constants come back, it holds for phrases that it was not fitted to, and it is silent where
there is not enough to go by."""

import pytest

from profiling.calibration import FirstAudio
from profiling.first_audio import Said, checks, tts_law, why_no_law
from tests.profiling.predictions.simulated import PIPER, VOXCPM, Simulated, Voice


def streamed(patches: int, fixed_s: float = 0.23, patch_s: float = 0.076, **more: object) -> FirstAudio:
    """A phrase without noise."""
    return FirstAudio(
        units=20,
        setup_s=fixed_s,
        patch_ends_s=tuple(fixed_s + patch_s * (n + 1) for n in range(patches)),
        audio_ends_s=tuple(0.16 * (n + 1) for n in range(patches)),
        **more,  # type: ignore[arg-type]
    )


def test_the_published_figures_come_back_from_phrases_that_follow_them() -> None:
    law = tts_law([streamed(n) for n in (3, 5, 8, 11, 14, 20)])
    assert law is not None and law.lengths == 6
    assert law.slope.value == pytest.approx(0.475) and law.intercept_at(20) == pytest.approx(0.23)
    assert law.patch_s.value == pytest.approx(0.076) and law.first_patch_sound_s == pytest.approx(0.16)
    assert law.interval_at([Said(20)]).value == pytest.approx(0.306)
    assert law.real_time_factor([[Said(20, 2.0)]]).value == pytest.approx((0.23 + 0.95) / 2)
    assert law.per_unit.value == 0 and law.gaps_per_s.high == 0


@pytest.mark.parametrize("voice", [VOXCPM, PIPER], ids=["equal patches", "a small first patch"])
def test_the_constants_lie_within_their_intervals(voice: Voice) -> None:
    stalled = 1.01125  # one operation in fifty takes half as long again, and noise is skewed
    true = (voice.patch_s / voice.sound_s * stalled, voice.per_unit_s, voice.fixed_s)
    held = [0, 0, 0]
    for seed in range(40):
        law = tts_law(Simulated(seed, voice).phrases())
        assert law is not None
        for number, (found, value) in enumerate(zip((law.slope, law.per_unit, law.fixed), true, strict=True)):
            held[number] += found.low <= value <= found.high
    assert min(held) >= 36


@pytest.mark.parametrize("voice", [VOXCPM, PIPER], ids=["equal patches", "a small first patch"])
def test_it_holds_for_phrases_that_it_was_not_fitted_to(voice: Voice) -> None:
    found = []
    for seed in range(30):
        phrases = Simulated(seed, voice).phrases()
        law = tts_law(phrases)
        assert law is not None
        found += checks(law, phrases)
    assert len(found) == 90
    assert sum(check.held for check in found) >= 80


def test_phrases_that_are_kept_to_check_it_do_not_move_it() -> None:
    phrases = Simulated(1).phrases(kept=0)
    law, with_others = tts_law(phrases), tts_law([*phrases, *(streamed(n, 9.0, checks=True) for n in range(3, 20))])
    assert law is not None and with_others is not None
    assert with_others.fixed == law.fixed and with_others.slope == law.slope


def test_one_phrase_is_less_sure_than_the_median_of_many() -> None:
    law = tts_law(Simulated(2).phrases())
    assert law is not None
    one, many = law.interval_at([Said(20)]), law.interval_at([Said(20)] * 50)
    assert one.value == many.value and one.half_width > 1.3 * many.half_width


def test_the_size_of_a_phrases_only_patch_counts() -> None:
    law = tts_law([streamed(n) for n in (3, 5, 8, 11, 14, 20)])
    assert law is not None
    assert law.at(Said(20, 0.32)) - law.at(Said(20)) == pytest.approx(0.076)


def test_with_fewer_than_six_lengths_there_is_no_law() -> None:
    few = [streamed(n) for n in (3, 5, 8, 11, 14, 14, 3, 5)]
    assert tts_law(few) is None
    assert why_no_law(few) == "The voice was streamed at 5 of at least 6 lengths: run `turnscope calibrate`."
    assert why_no_law([]) and tts_law([]) is None


def test_phrases_of_two_patches_give_no_slope() -> None:
    short = [streamed(2, audio_step) for audio_step in (0.1, 0.2)]
    short += [
        FirstAudio(units=1, setup_s=0.1, patch_ends_s=(0.2, 0.3), audio_ends_s=(0.1, 0.2 + 0.02 * n)) for n in range(6)
    ]
    reason = why_no_law(short)
    assert reason is not None and "three patches" in reason and tts_law(short) is None


def test_a_speed_that_spoilt_the_regression_gives_no_law() -> None:
    slowing = [
        FirstAudio(units=20, setup_s=0.1, patch_ends_s=(0.1, 0.2, 3.0 + n), audio_ends_s=(0.1, 0.2, 0.3 + 0.1 * n))
        for n in range(6)
    ]
    reason = why_no_law(slowing)
    assert reason is not None and "speed" in reason and tts_law(slowing) is None


def test_synthesis_slower_than_playback_leaves_gaps() -> None:
    law = tts_law([streamed(n, patch_s=0.2) for n in (3, 5, 8, 11, 14, 20)])
    assert law is not None and law.gaps_per_s.value == pytest.approx(0.25) and law.gaps_per_s.low > 0


def test_damaged_phrases_are_passed_over() -> None:
    damaged = [
        FirstAudio(units=1, setup_s=0.1, patch_ends_s=(), audio_ends_s=()),
        FirstAudio(units=1, setup_s=0.1, patch_ends_s=(0.2, 0.3, 0.4), audio_ends_s=(0.1,)),
        FirstAudio(units=1, setup_s=0.1, patch_ends_s=(), audio_ends_s=(), checks=True),
    ]
    law = tts_law([*damaged, *(streamed(n) for n in (3, 5, 8, 11, 14, 20))])
    assert law is not None and law.at(Said(20)) == pytest.approx(0.306)
    assert checks(law, damaged) == []
