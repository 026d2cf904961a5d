"""First audio against its law, on simulated voices that follow it and on ones that do not."""

import pytest

from profiling.calibration import FirstAudio
from profiling.first_audio import tts_law
from profiling.studies.first_audio import first_audio_finding, heard
from tests.profiling.predictions.simulated import PIPER, VOXCPM, Simulated, Voice


def phrases(voice: Voice, seed: int = 0, late_s: float = 0.0) -> list[FirstAudio]:
    """Those to predict from, and those to check by, whose first audio comes so much later."""
    made = [*Simulated(seed, voice).phrases(), *Simulated(seed + 100, voice).phrases()]
    return [
        one.model_copy(update={"patch_ends_s": tuple(end + late_s for end in one.patch_ends_s)}) if one.checks else one
        for one in made
    ]


@pytest.mark.parametrize("voice", [VOXCPM, PIPER], ids=["equal patches", "a small first patch"])
def test_a_voice_that_follows_the_law_holds_it(voice: Voice) -> None:
    finding = first_audio_finding("a voice", "phoneme", phrases(voice), full_size_voxcpm2=False)
    assert finding.sentence.startswith("Intercept + one patch holds here: ")
    *texts, published = finding.rows
    assert len(texts) >= 3 and sum(row[5] == "yes" for row in texts) >= 0.75 * len(texts)
    assert published[0] == "published" and published[4:6] == ("", "")
    assert any("shown for reference" in note for note in finding.notes)


def test_a_planted_extra_patch_reads_late() -> None:
    finding = first_audio_finding("a voice", "token", phrases(VOXCPM, late_s=VOXCPM.patch_s), full_size_voxcpm2=True)
    assert "does not hold here: first audio comes" in finding.sentence and "% later than" in finding.sentence
    assert [row[5] for row in finding.rows] == ["no"] * len(finding.rows)
    assert finding.notes == ()


def test_first_audio_that_comes_before_its_time_reads_early() -> None:
    finding = first_audio_finding("a voice", "token", phrases(VOXCPM, late_s=-0.1), full_size_voxcpm2=False)
    assert "% earlier than" in finding.sentence


def test_the_published_figure_gets_a_verdict_with_its_own_model() -> None:
    finding = first_audio_finding("voxcpm2", "token", phrases(VOXCPM), full_size_voxcpm2=True)
    name, predicted, within, _, error, verdict, _ = finding.rows[-1]
    assert (name, predicted, within) == ("published", "306", "300 to 312")
    assert error.endswith("%") and verdict in ("yes", "no")


def test_a_law_that_is_hardly_known_confirms_nothing() -> None:
    wild = [one for seed in range(2) for one in Simulated(seed, VOXCPM, noise=0.5, drift=0.5).phrases()]
    finding = first_audio_finding("a voice", "token", wild, full_size_voxcpm2=False)
    assert finding.sentence.startswith(
        ("Whether intercept + one patch holds here cannot be told", "Intercept + one patch does")
    )
    assert any("speed changed much" in note for note in finding.notes)


def test_one_text_said_twice_is_one_row() -> None:
    once = phrases(VOXCPM)
    law = tts_law(once)
    assert law is not None
    twice = heard(law, once + [one for one in once if one.checks])
    assert [one.measured.n for one in twice] == [2 * one.measured.n for one in heard(law, once)]
    assert [one.units for one in twice] == sorted(one.units for one in twice)


def test_without_a_law_or_without_checks_there_is_a_sentence() -> None:
    once = phrases(VOXCPM)
    with pytest.raises(ValueError, match="of at least 6 lengths"):
        first_audio_finding("a voice", "token", once[:2], full_size_voxcpm2=False)
    with pytest.raises(ValueError, match="kept to check"):
        first_audio_finding("a voice", "token", [o for o in once if not o.checks], full_size_voxcpm2=False)
