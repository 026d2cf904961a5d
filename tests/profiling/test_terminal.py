"""What is printed: it sums, it fits, it says what is known and no more."""

import io
import random
import re
from dataclasses import replace

import pytest
from rich.console import Console

from profiling.report.style import shares
from profiling.report.terminal import print_summary, print_turn
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import counts
from tests.profiling.turns import MS, answered, interrupted, random_turn


def console(width: int = 100, encoding: str = "utf-8", terminal: bool = False) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")
    return Console(file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None)


def printed(to: Console) -> str:
    to.file.flush()
    return to.file.buffer.getvalue().decode(to.encoding)  # type: ignore[attr-defined]


def turn_text(turn: Turn, width: int = 100, encoding: str = "utf-8", **more: str) -> str:
    to = console(width, encoding)
    print_turn(to, turn, 1, **more)
    return printed(to)


def table(text: str) -> dict[str, tuple[str, float, float]]:
    """The critical path's rows as printed: kind, ms and per cent by label."""
    rows = re.findall(r"^  (\S.*?) +(wait|work|ours)? +([\d,]+\.\d) +([\d.]+) %", text, re.MULTILINE)
    return {label: (kind, float(ms.replace(",", "")), float(share)) for label, kind, ms, share in rows}


def test_the_rows_sum_to_the_latency_as_shown_and_our_own_are_always_there() -> None:
    rows = table(turn_text(answered({"wait": 7, "asr": 3})))
    total = rows.pop("turn latency")
    assert total == ("", 514.0, 100.0)
    assert sum(ms for _, ms, _ in rows.values()) == pytest.approx(total[1])
    assert sum(share for _, _, share in rows.values()) == pytest.approx(100)
    assert rows["queue"] == ("ours", 0, 0) and rows["unattributed"] == ("ours", 0, 0)
    assert rows["host (our code)"][:2] == ("ours", 1.0)
    assert rows["endpoint wait"][:2] == ("wait", 207.0) and rows["LLM prefill"][:2] == ("work", 80.0)


def test_displayed_rows_sum_for_any_turn() -> None:
    shown = 0
    for seed in range(300):
        turn = random_turn(random.Random(seed))
        scaled = Turn("c", 1, turn.speech_start_ns * 12_345, first_audio_step=turn.first_audio_step)
        for step in turn.steps:
            scaled.steps.append(replace(step, start_ns=step.start_ns * 12_345, end_ns=step.end_ns * 12_345))
        if turn.speech_end_ns is None or turn.first_audio_ns is None or turn.latency_ns is None or turn.latency_ns <= 0:
            continue
        scaled.speech_end_ns, scaled.first_audio_ns = turn.speech_end_ns * 12_345, turn.first_audio_ns * 12_345
        text = turn_text(scaled)
        rows = table(text)
        _, total, _ = rows.pop("turn latency")
        assert sum(ms for _, ms, _ in rows.values()) == pytest.approx(total, abs=1e-6)
        assert f"{total:,.1f} ms from your last word" in text
        shown += 1
    assert shown > 50


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([0, 0], [0, 0]),
        ([5, 5], [1, 0]),
        ([33, 33, 34], [3, 3, 4]),
        ([4, 4, 4], [1, 0, 0]),
        ([0, 26], [0, 3]),
    ],
)
def test_shares_round_to_the_rounded_total_and_leave_zero_alone(parts: list[int], expected: list[int]) -> None:
    assert shares(parts, 10) == expected


def test_one_sentence_names_the_largest_part() -> None:
    text = " ".join(turn_text(answered()).split())
    assert (
        "The largest part of the 504 ms was the endpoint wait: 200 ms (40 %) of silence before the agent took" in text
    )
    assert "A fixed hangover ended it, after 0.20 s." in text
    text = " ".join(turn_text(answered({"phrase": 900})).split())
    assert "Most of the 1404 ms was the LLM first phrase: 963 ms (69 %)" in text
    assert "It was 9 tokens at 6.0 ms each." in text
    text = " ".join(turn_text(answered({"queue": 900})).split())
    assert "was the queue: 900 ms" in text and "It waited for llm.generate." in text
    assert "that no step accounts for" in " ".join(turn_text(answered({"unattributed": 900})).split())


def test_facts_are_the_turns_own() -> None:
    text = " ".join(turn_text(answered()).split())
    assert "320 ms chunks, 1 partial (2 skipped), 2.0 s encoded per second of speech" in text
    assert "130 prompt tokens (104 cached, 26 evaluated), 39 out at 167 tokens/s, 0 thinking tokens" in text
    assert "40.0 ms set-up, 3 patches, 1.30 s of sound, real-time factor 0.10" in text
    assert "0 underruns, 10 ms start buffer, 20 ms leading silence" in text


def test_what_is_not_known_is_a_dash_and_never_zero() -> None:
    turn = Turn("c", 1, 0, speech_end_ns=10 * MS, first_audio_ns=20 * MS)
    turn.describe(v.ASR, {v.ASR_CHUNK_S: 0.32, v.ASR_ENCODED_S: float("nan"), v.ASR_SPEECH_S: 0.0})
    text = turn_text(turn)
    assert "320 ms chunks, — partials (— skipped), — s encoded" in text
    assert re.search(r"^  LLM +—$", text, re.MULTILINE) and re.search(r"^  voice +—$", text, re.MULTILINE)


def test_an_estimated_end_of_speech_is_marked() -> None:
    turn = answered()
    assert "504.0 ms from your last word to the first sound" in turn_text(turn)
    turn.speech_end_estimated = True
    assert "504.0 ms from your last word (estimated) to the first sound" in turn_text(turn)


def test_a_turn_without_latency_says_why_and_shows_what_ran() -> None:
    text = turn_text(interrupted())
    assert "no latency: interrupted before the first sound" in text
    assert "silent 42 ms after you were heard" in text and "endpoint wait" in text
    assert "turn latency" not in text and "hidden" not in text
    early = answered()
    early.first_audio_ns = early.speech_start_ns
    assert "no latency: the reply began before the speech ended" in turn_text(early)


def test_the_waterfall_tells_the_path_from_what_it_hides() -> None:
    lines = {line[:22].strip(): line[22:] for line in turn_text(answered()).splitlines()[:18]}
    assert "█" in lines["LLM prefill"] and "░" not in lines["LLM prefill"]
    assert "▒" in lines["endpoint wait"] and "█" not in lines["endpoint wait"]
    assert "░" in lines["turn detector"] and lines["turn detector"].split()[-1] == "40.0"
    assert lines["partial transcript"].startswith("◂") and lines["partial transcript"].split()[-1] == "40.0"
    starts = [re.search("[▐█]", lines[n]).start() for n in ("final transcript", "LLM prefill", "voice first patch")]  # type: ignore[union-attr]
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("width", [20, 80, 99, 140, 200, 400])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    turn = answered()
    turn.end_reason = EndReason.INTERRUPTED
    to = console(width)
    print_turn(to, turn, 12, "go forward ten meters " * 20, "\u4f60\u597d\u4e16\u754c" * 60)
    print_summary(to, [turn, interrupted(), answered({"wait": 12_000})])
    widest = max(Console(width=1000).measure(line).maximum for line in printed(to).splitlines())
    assert widest <= max(width, 80)
    assert all(line == line.rstrip() for line in printed(to).splitlines())


def test_a_terminal_without_unicode_gets_ascii() -> None:
    text = turn_text(answered(), encoding="ascii", transcript="na\u00efve \u4f60", reply="ok")
    assert text.isascii() and "#" in text and "==" in text and "na?ve ?" in text
    latin = turn_text(answered(), encoding="latin-1", transcript="na\u00efve")
    assert "na\u00efve" in latin and "█" not in latin


def test_no_colour_codes_when_piped_and_some_on_a_terminal() -> None:
    assert "\x1b" not in turn_text(answered())
    to = console(terminal=True)
    print_turn(to, answered(), 1)
    assert "\x1b[" in printed(to)


def test_what_was_said_can_neither_mark_up_nor_control_the_terminal() -> None:
    text = turn_text(answered(), transcript="[red]x[/red] \x1b[2J\x07 [/nonsense]", reply="a\nb\r\u2028c\ud800")
    assert "[red]x[/red] [2J [/nonsense]" in text and "\x1b" not in text and "\x07" not in text
    assert re.search(r"agent +a b c$", text, re.MULTILINE)
    turn = answered({"queue": 900})
    turn.end_reason = EndReason.ERROR
    turn.attributes[v.TURN_ERROR] = "it \x1b[31mbroke\n[bold]badly"
    assert re.search(r"error +it \[31mbroke \[bold\]badly", turn_text(turn))


def test_any_turn_can_be_printed() -> None:
    to = console()
    turns = [random_turn(random.Random(seed), seed) for seed in range(300)]
    far = Turn("c", 1, -(2**63), speech_end_ns=-(2**63), first_audio_ns=2**63 - 1, first_audio_step=0)
    far.add(Stage.LLM_DECODE, -(2**63), 2**63 - 1)
    at_once = Turn("c", 1, 0, speech_end_ns=5, first_audio_ns=5)
    for turn in [*turns, far, at_once, Turn("c", 1, 0)]:
        print_turn(to, turn, 1)
    print_summary(to, turns)
    assert printed(to).count("Turn 1") == 303


def test_the_summary_takes_medians_over_the_turns_that_count() -> None:
    cut_off = answered({"wait": 5000})
    cut_off.end_reason = EndReason.CUT_OFF
    turns = [answered(), answered({"prefill": 100}), answered({"asr": 300}), interrupted(), interrupted(), cut_off]
    assert [counts(turn) for turn in turns] == [True, True, True, False, False, False]
    to = console()
    print_summary(to, turns)
    text = printed(to)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("  ") and line.split()}
    assert rows["1"] == ["504.0", "200.0", "60.0", "143.0", "70.0", "30.0", "1.0", "completed"]
    assert rows["4"] == ["—"] * 7 + ["interrupted"]
    assert rows["median"] == ["604.0", "200.0", "60.0", "143.0", "70.0", "30.0", "1.0", "n", "=", "3"]
    assert "3 of 6 turns are left out of the medians: 2 interrupted before the first sound, 1 cut off." in text


def silent(reason: EndReason | None) -> Turn:
    turn = interrupted()
    turn.end_reason = reason
    return turn


def test_why_turns_are_left_out_reads_as_a_sentence() -> None:
    early = answered()
    early.speech_end_ns = early.first_audio_ns + 1
    failed = answered()
    failed.end_reason = EndReason.ERROR
    turns = [silent(EndReason.ERROR), silent(EndReason.COMPLETED), silent(EndReason.COMPLETED), early, failed]
    to = console(200)
    print_summary(to, [*turns, silent(EndReason.NO_TRANSCRIPT), silent(EndReason.CUT_OFF), silent(None)])
    assert (
        "8 of 8 turns are left out of the medians: 1 turn whose engine failed, 2 turns whose reply made no sound, "
        "1 turn whose reply began before the speech ended, 1 failed, 1 turn with speech, but no words, 1 turn in which "
        "the user went on speaking before the first sound, 1 not finished."
    ) in " ".join(printed(to).split())
    to = console()
    print_summary(to, [silent(EndReason.STOPPED), silent(EndReason.STOPPED)])
    assert "2 stopped with the run" in printed(to)


def test_a_summary_without_any_latency_has_no_median() -> None:
    to = console()
    print_summary(to, [interrupted()])
    print_summary(to, [])
    assert "median  " not in printed(to) and "1 of 1 turns is left out" in printed(to)
