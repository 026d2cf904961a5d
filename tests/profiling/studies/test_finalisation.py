"""When transcripts are final, on endings that follow the law exactly."""

import pytest

from profiling.studies.finalisation import Ending, by_chunk, finalisation_finding

PHASES = (1 / 8, 3 / 8, 5 / 8, 7 / 8)
COMPUTE_S = 0.03


def ending(chunk_s: float, phase: float, queue_s: float = 0.0, waits: bool = True, busy: float = 0.1) -> Ending:
    wait_s = phase * chunk_s
    return Ending(
        chunk_s=chunk_s,
        wait_s=wait_s,
        flushed_s=queue_s + COMPUTE_S,
        unflushed_s=wait_s + COMPUTE_S if waits else None,
        queue_s=queue_s,
        last_step_s=COMPUTE_S,
        busy=busy,
    )


def endings(chunks_s: tuple[float, ...], **more: object) -> list[Ending]:
    return [ending(chunk_s, phase, **more) for phase in PHASES for chunk_s in chunks_s]  # type: ignore[arg-type]


def test_flushing_saves_half_a_chunk_and_the_law_says_so() -> None:
    finding = finalisation_finding("a recogniser", endings((1.12, 0.08, 0.32)))
    assert finding.rows == (
        ("80 ms", "30", "30", "30", "70", "70", "100", "4"),
        ("320 ms", "30", "30", "30", "190", "190", "310", "4"),
        ("1120 ms", "30", "30", "30", "590", "590", "1010", "4"),
    )
    assert "earlier by 40 ms at 80 ms, 160 ms at 320 ms and 560 ms at 1120 ms" in finding.sentence
    assert "which is 0.50 of a chunk (law: 0.5); flushed, it is final 30 to 30 ms after" in finding.sentence


def test_a_step_still_being_computed_saves_less_than_the_law() -> None:
    (chunk,) = by_chunk(endings((0.32,), queue_s=0.05))
    assert chunk.saved_s == pytest.approx(0.16 - 0.05)
    assert chunk.computing_s == COMPUTE_S and chunk.waiting_s == pytest.approx(COMPUTE_S + 0.16)


def test_a_model_that_waits_for_no_chunk_has_nothing_to_flush() -> None:
    finding = finalisation_finding("a recogniser", endings((0.32, 0.64), waits=False, queue_s=0.01))
    assert finding.columns[0] == "cadence" and finding.rows[0] == ("320 ms", "30", "40", "40", "10", "4")
    assert finding.sentence.startswith("There is nothing to flush") and "up to 10 ms of it" in finding.sentence
    assert [series.label for series in finding.plot.series] == ["final", "compute of the last pass"]


def test_a_recogniser_slower_than_speech_is_named() -> None:
    slow = endings((0.08,), busy=1.7) + endings((0.32,))
    assert any(note.startswith("At 80 ms this recogniser is slower than speech") for note in finding_notes(slow))
    assert len(finding_notes(endings((0.32,)))) == 1


def finding_notes(known: list[Ending]) -> tuple[str, ...]:
    return finalisation_finding("a recogniser", known).notes


def test_an_utterance_shorter_than_a_chunk_has_no_law_of_its_own() -> None:
    short = Ending(1.12, 0.5, 0.03, 0.53, 0.0, None, 0.1)
    finding = finalisation_finding("a recogniser", [short])
    assert finding.rows == (("1120 ms", "", "30", "30", "", "530", "530", "1"),)
    with pytest.raises(ValueError, match="no utterances"):
        finalisation_finding("a recogniser", [])
