"""One line on a turn's wait, and one on what a change did to it: figures that add up as they are shown."""

import random
import re

import pytest

from profiling.report.breakdown import breakdown_line, change_line, changes, setting_changes
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage

MS = 1_000_000


def turn_of(parts: list[tuple[Stage, float]], end_reason: EndReason = EndReason.COMPLETED) -> Turn:
    """A turn whose path is these stages one after another, in milliseconds from the end of speech on."""
    turn = Turn("c", 1, 0, speech_end_ns=0, end_reason=end_reason)
    at, cause = 0, None
    for stage, ms in parts:
        end = at + round(ms * MS)
        cause = turn.add(stage, at, end, [cause])
        at = end
    turn.first_audio_ns, turn.first_audio_step, turn.end_ns = at, cause, at
    return turn


PARTS = [
    (Stage.ENDPOINT_WAIT, 320.4),
    (Stage.SMART_TURN, 96.6),
    (Stage.ASR_FINALIZE, 50.7),
    (Stage.LLM_PREFILL, 62.9),
    (Stage.LLM_FIRST_PHRASE, 94.3),
    (Stage.TTS_SETUP, 53.2),
    (Stage.TTS_FIRST_PATCH, 19.6),
    (Stage.PLAYOUT_LEADING_SILENCE, 49.9),
]


def test_the_line_of_a_turn() -> None:
    assert breakdown_line(turn_of(PARTS)) == (
        "You waited 748 ms: endpoint wait 320, turn detector 97, final transcript 51, LLM prefill 63, "
        "LLM first phrase 94, voice set-up 53, the rest 70."
    )


@pytest.mark.parametrize("seed", range(50))
def test_the_parts_sum_to_the_whole_as_they_are_shown(seed: int) -> None:
    dice = random.Random(seed)
    stages = [stage for stage in Stage if stage not in (Stage.QUEUE, Stage.UNATTRIBUTED)]
    chosen = sorted(dice.sample(stages, dice.randint(1, 12)), key=lambda stage: stage.order)
    line = breakdown_line(
        turn_of([(stage, dice.choice([0.0, 0.2, 3.7, 1500.123]) * dice.random()) for stage in chosen])
    )
    whole, *parts = (int(figure.replace(",", "")) for figure in re.findall(r"(?<= )[\d,]*\d\b", line))
    assert sum(parts) == whole or (whole == 0 and not parts)


def test_a_turn_without_a_wait_says_why() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=0, end_reason=EndReason.NO_TRANSCRIPT)
    assert breakdown_line(turn) == "No wait to explain: speech was heard, but no words."


def test_an_interrupted_reply_tells_how_much_was_heard() -> None:
    turn = turn_of([(Stage.LLM_PREFILL, 100)], EndReason.INTERRUPTED)
    turn.attributes |= {v.TURN_HEARD_WORDS: 5, v.TURN_REPLY_WORDS: 14}
    assert breakdown_line(turn) == "You waited 100 ms: LLM prefill 100; interrupted after 5 of 14 words."


def test_the_effect_of_a_change_by_stage() -> None:
    thinking = [*PARTS[:4], (Stage.LLM_THINKING, 405.2), *PARTS[4:6], (Stage.TTS_FIRST_PATCH, 26.6), PARTS[7]]
    assert change_line("thinking off -> 32", turn_of(PARTS), turn_of(thinking)) == (
        "thinking off -> 32: +412 ms, of it LLM thinking +405, voice first patch +7."
    )
    assert change_line("thinking 32 -> off", turn_of(thinking), turn_of(PARTS)) == (
        "thinking 32 -> off: -412 ms, of it LLM thinking -405, voice first patch -7."
    )


def test_changes_sum_to_the_difference_of_the_latencies_to_the_nanosecond() -> None:
    one, two = turn_of(PARTS), turn_of([(stage, ms * 1.2345) for stage, ms in PARTS[2:]])
    found = changes(one, two)
    assert found is not None and one.latency_ns is not None and two.latency_ns is not None
    assert sum(change.change_ns for change in found) == two.latency_ns - one.latency_ns
    assert sum(change.ns for change in found) == two.latency_ns
    assert [change.stage for change in found] == sorted((c.stage for c in found), key=lambda stage: stage.order)


def test_without_a_wait_there_is_no_effect_to_tell() -> None:
    silent = Turn("c", 1, 0, speech_end_ns=0, end_reason=EndReason.ERROR)
    assert changes(silent, turn_of(PARTS)) is None
    assert change_line("chunk 320 -> 640", silent, turn_of(PARTS)) == (
        "chunk 320 -> 640: its effect cannot be told, the turn before has no wait (an engine failed)."
    )
    assert "this turn has no wait" in change_line("x", turn_of(PARTS), silent)


def test_a_change_that_made_no_difference_says_so() -> None:
    assert change_line("chunk 320 -> 640", turn_of(PARTS), turn_of(PARTS)) == "chunk 320 -> 640: +0 ms."


def test_what_was_changed_between_two_sets_of_choices() -> None:
    before = {"thinking": "off", "chunk (ms)": "320", "voice": "joe"}
    assert setting_changes(before, before) == ""
    assert (
        setting_changes(before, {**before, "thinking": "32", "voice": "amy"}) == "thinking off -> 32, voice joe -> amy"
    )
