"""When words end: from frames per phoneme, clause by clause."""

import pytest

from agent.tts.word_times import word_ends


def frames(phonemes: str, tail: int = 2) -> list[int]:
    """One frame per phoneme, and `tail` frames of silence."""
    return [*range(1, len(phonemes) + 1), len(phonemes) + tail]


def test_equal_numbers_of_words_take_their_own_frames() -> None:
    assert word_ends("one two", "wʌn tuː", frames("wʌn tuː")) == (3 / 9, 1.0)


def test_a_word_ends_before_its_pause() -> None:
    assert word_ends("one, two", "wʌn, tuː", frames("wʌn, tuː"))[0] == 3 / 10


def test_merged_words_share_their_time_by_letters() -> None:
    ends = word_ends("of the man", "ʌvðə mæn", frames("ʌvðə mæn"))
    assert ends == pytest.approx((8 * 2 / 8 / 10, 8 * 5 / 8 / 10, 1.0))


def test_a_merge_in_one_clause_leaves_the_other_clauses_exact() -> None:
    phonemes = "ʌvðə mæn, wʌn tuː"
    ends = word_ends("of the man, one two", phonemes, frames(phonemes))
    assert ends[2:4] == (8 / 19, 13 / 19)


def test_marks_alone_end_with_the_word_before() -> None:
    ends = word_ends("— one — two !", "wʌn tuː", frames("wʌn tuː"))
    assert ends == (0.0, 3 / 9, 3 / 9, 7 / 9, 1.0)


def test_different_clauses_share_the_whole_by_letters() -> None:
    ends = word_ends("aa; bb cc", "aabbcc", frames("aabbcc", tail=0))
    assert ends == pytest.approx((3 / 7, 5 / 7, 1.0))


def test_nothing_spoken() -> None:
    assert word_ends("... !", "", [0]) == (1.0, 1.0)
    assert word_ends("", "", [0]) == ()
