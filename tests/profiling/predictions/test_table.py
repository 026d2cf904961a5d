"""The table of a run: what each law says of turns that follow it, and of turns that do not."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from profiling.calibration import Calibration, Sample
from profiling.interval import Interval
from profiling.operations import ASR_STEP, ENCODED_S, KV_BYTES, PASSES, PREFILL, TOKEN, TOKENS
from profiling.predictions.prediction import Prediction, Verdict
from profiling.predictions.table import predictions
from profiling.run import RunWriter, load_run
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage
from tests.profiling.predictions.simulated import CEILINGS, PIPER, VOXCPM, Simulated, Voice, conditions
from tests.profiling.turns import answered, interrupted, random_turn

ROWS = [
    "ASR wait",
    "ASR compute",
    "decode",
    "prefill",
    "thinking",
    "synthesis",
    "first audio",
    "first audio, published",
    "playback",
]
CALIBRATION = Simulated(0).calibration()


def table(turns: list[Turn], calibration: Calibration | None = CALIBRATION, **more: object) -> dict[str, Prediction]:
    return {row.law: row for row in predictions(turns, conditions(calibration, **more))}


def samples(seed: int, operation: str, spread: float = 0.02) -> list[Sample]:
    sim = Simulated(seed, noise=spread)
    if operation == PREFILL:
        lengths = [64, 128, 256, 512, 1024, 2048] * 2
        times = [0.04 + 2 * 3.6e9 * n / 31.8e12 for n in lengths]
        return [
            Sample(operation=PREFILL, duration_s=sim.took(s), units={TOKENS: n})
            for n, s in zip(lengths, times, strict=True)
        ]
    if operation == TOKEN:
        return [
            Sample(operation=TOKEN, duration_s=sim.took(0.01168), units={KV_BYTES: 1e8 + 1e6 * n}) for n in range(30)
        ]
    units = [{ENCODED_S: 0.1 * n, TOKENS: 4.0, PASSES: 0.0} for n in range(1, 11)]
    return [Sample(operation=ASR_STEP, duration_s=sim.took(0.02 + 0.1 * u[ENCODED_S]), units=u) for u in units * 2]


def test_every_run_has_every_row_and_a_note_where_there_is_nothing() -> None:
    for turns in ([], [Turn("c", 1, 0)]):
        found = table(turns, None)
        assert list(found) == ROWS
        assert all(row.verdict is None and row.measured is None and row.note for row in found.values())


@pytest.mark.parametrize("voice", [VOXCPM, PIPER], ids=["equal patches", "a small first patch"])
def test_a_planted_extra_patch_reads_high_and_none_passes(voice: Voice) -> None:
    seeds = 30
    planted = passed = 0
    for seed in range(seeds):
        sim = Simulated(seed, voice)
        calibration = sim.calibration()
        planted += table(sim.turns(12, extra_patches=1), calibration)["first audio"].verdict is Verdict.HIGH
        passed += table(sim.turns(12), calibration)["first audio"].verdict is Verdict.PASS
    assert planted >= 0.95 * seeds
    assert passed >= 0.9 * seeds


def test_first_audio_tells_its_law_and_how_it_was_checked() -> None:
    row = table(Simulated(5).turns(12))["first audio"]
    assert row.predicted is not None and row.predicted.value == pytest.approx(0.306, rel=0.1)
    assert row.note.startswith("0.2") and "of 3 phrases kept to check it" in row.note
    assert "intercept + one patch" in row.formula


def test_first_audio_beside_decoding_says_so() -> None:
    turns = Simulated(5).turns(12)
    for turn in turns[:4]:
        setup = next(step for step in turn.steps if step.stage is Stage.TTS_SETUP)
        turn.add(Stage.LLM_DECODE, setup.start_ns, setup.end_ns)
    assert "The language model decoded beside it in 4 of 12 turns." in table(turns)["first audio"].note


def test_phrases_unlike_any_that_was_calibrated_are_told() -> None:
    long = Simulated(5, Voice(units_per_patch=30.0)).turns(12)
    assert "Beyond what was calibrated" in table(long)["first audio"].note
    assert "Beyond" not in table(Simulated(5).turns(12))["first audio"].note


def test_fewer_than_six_turns_are_too_few() -> None:
    found = table(Simulated(5).turns(5))
    assert found["first audio"].verdict is Verdict.TOO_FEW and "A verdict needs 6 turns." in found["first audio"].note


def test_a_voice_streamed_at_too_few_lengths_has_no_prediction() -> None:
    short = CALIBRATION.model_copy(update={"phrases": CALIBRATION.phrases[:5]})
    row = table(Simulated(5).turns(12), short)["first audio"]
    assert row.predicted is None and row.verdict is None and row.measured is not None
    assert row.note == "The voice was streamed at 5 of at least 6 lengths: run `turnscope calibrate`."
    assert "turnscope calibrate" in table(Simulated(5).turns(12), None)["first audio"].note


def test_the_published_prediction_is_judged_for_the_full_size_voice_only() -> None:
    turns = Simulated(5).turns(12)
    other = table(turns)["first audio, published"]
    assert other.verdict is None and other.note == "A different engine: shown for reference."
    assert other.predicted is not None and other.predicted.value == pytest.approx(0.306)
    assert other.measured is not None
    full = table(turns, full_size_voxcpm2=True)["first audio, published"]
    assert full.verdict is Verdict.PASS
    slow = table(Simulated(5).turns(12, extra_patches=1), full_size_voxcpm2=True)["first audio, published"]
    assert slow.verdict is Verdict.HIGH


def test_decode_is_told_as_a_share_of_the_ceiling() -> None:
    row = table(Simulated(1).turns(12))["decode"]
    assert row.verdict is Verdict.HIGH and row.predicted is not None
    assert row.predicted.value == pytest.approx(7.1e9 / 905e9, rel=0.01)
    assert row.note.startswith(("66%", "67%")) and "tokens/s" in row.note  # 85.6 tokens per second of 129
    at_it = table(Simulated(1, noise=0.003, drift=0).turns(12, token_s=7.1e9 / 905e9))["decode"]
    assert at_it.verdict is Verdict.PASS


def test_decode_without_a_ceiling_says_what_to_measure() -> None:
    found = predictions(Simulated(1).turns(12), conditions())
    assert {row.law: row for row in found}["decode"].predicted is not None
    without = conditions().__class__(conditions().book, {"bfloat16": CEILINGS["bfloat16"]})
    row = {row.law: row for row in predictions(Simulated(1).turns(12), without)}["decode"]
    assert row.predicted is None and row.note == "Not measured on this machine: read. Run `turnscope machine`."


def test_prefill_is_arithmetic_and_a_calibrated_fixed_cost() -> None:
    sim = Simulated(3, noise=0.02)
    turns = [sim.turn(n, prompt_tokens=200 + 100 * n) for n in range(12)]
    row = table(turns, sim.calibration(samples(3, PREFILL)))["prefill"]
    assert row.verdict is Verdict.PASS and row.predicted is not None
    assert row.predicted.value == pytest.approx(0.04 + 2 * 3.6e9 * 750 / 31.8e12, rel=0.05)
    assert "fixed cost" in row.note
    bare = table(turns)["prefill"]
    assert bare.verdict is Verdict.HIGH and bare.note == "No fixed cost was calibrated."


def test_thinking_takes_its_tokens_over_the_speed() -> None:
    sim = Simulated(4, noise=0.02)
    turns = [sim.turn(n, thoughts=40 + 10 * n) for n in range(9)]
    calibrated = table(turns, sim.calibration(samples(4, TOKEN)))["thinking"]
    assert calibrated.verdict is Verdict.PASS and calibrated.predicted is not None
    assert calibrated.predicted.value == pytest.approx(80 / 85.6, rel=0.03)  # 0.93 s by law
    own = table(turns)["thinking"]
    assert own.verdict is Verdict.PASS and "visible tokens" in own.note
    idle = [sim.turn(n, thoughts=80) for n in range(9)]
    for turn in idle:  # the path waits longer than the tokens take
        thinking = next(step for step in turn.steps if step.stage is Stage.LLM_THINKING)
        turn.steps[thinking.index] = replace(thinking, start_ns=thinking.start_ns - 300_000_000)
    assert table(idle)["thinking"].verdict is Verdict.HIGH
    assert table(sim.turns(7))["thinking"].note == "No unspoken tokens in this run."


def test_recognition_computes_as_it_was_calibrated() -> None:
    sim = Simulated(6, noise=0.02)
    row = table(sim.turns(9), sim.calibration(samples(6, ASR_STEP)))["ASR compute"]
    assert row.verdict is Verdict.PASS and row.predicted is not None
    assert row.predicted.value == pytest.approx(0.05, rel=0.05)  # 0.3 s of sound
    assert table(sim.turns(9), None)["ASR compute"].note.startswith("Not calibrated")


def chunked(seed: int, count: int, chunk_s: float = 0.32, hidden_s: float = 0.05) -> list[Turn]:
    """Unflushed turns whose chunk ends at any time; the hangover hides the first part of the wait."""
    sim, turns = Simulated(seed), []
    for index in range(count):
        turn = Turn("c", index, 0, speech_end_ns=10**9)
        decided = 10**9 + round(hidden_s * 1e9)
        cause = turn.add(Stage.ENDPOINT_WAIT, 10**9, decided)
        filled = max(decided, 10**9 + round(sim.random.uniform(0, chunk_s) * 1e9))
        if filled > decided:
            cause = turn.add(Stage.ASR_CHUNK_WAIT, decided, filled, [cause])
        turn.add(Stage.ASR_FINALIZE, filled, filled + 10**7, [cause])
        turn.describe(v.ASR, {v.ASR_CHUNK_S: chunk_s, v.ASR_RIGHT_CONTEXT: 3})
        turns.append(turn)
    return turns


def test_an_unflushed_stream_waits_half_a_chunk_less_what_the_hangover_hides() -> None:
    row = table(chunked(0, 150), flushed=False)["ASR wait"]
    assert row.predicted is not None and row.predicted.value == pytest.approx(0.16 - 0.05)
    assert row.verdict is Verdict.PASS
    assert table(chunked(0, 8), flushed=False)["ASR wait"].verdict is Verdict.TOO_FEW
    tail = table(chunked(0, 150), flushed=False, tail_s=0.16)["ASR wait"]
    assert tail.predicted is not None and tail.predicted.value == pytest.approx(0.27)
    assert tail.verdict is Verdict.LOW


def test_a_flushed_stream_waits_for_nothing() -> None:
    turns = chunked(0, 12, hidden_s=1.0)
    assert table(turns, flushed=True)["ASR wait"].verdict is Verdict.PASS
    unknown = table(turns)["ASR wait"]
    assert unknown.predicted is None and unknown.note == "Not known whether the stream was flushed."


def test_a_cadence_is_no_wait() -> None:
    row = table(Simulated(7).turns(7))["ASR wait"]
    assert row.verdict is Verdict.PASS
    assert row.note == "This model's chunk is only the cadence of partial transcripts."


def test_playback_is_free_of_gaps_below_a_slope_of_one() -> None:
    assert table(Simulated(8).turns(8))["playback"].verdict is Verdict.PASS
    gappy = table(Simulated(8).turns(8, underrun_s=0.2))["playback"]
    assert gappy.verdict is Verdict.HIGH and "8 of 8 replies had gaps" in gappy.note
    slow = Voice(patch_s=0.2)
    sim = Simulated(8, slow)
    row = table(sim.turns(8, underrun_s=0.0), sim.calibration())["playback"]
    assert row.verdict is Verdict.LOW and row.predicted is not None and row.predicted.value > 0.2


def test_a_gap_in_one_reply_is_not_hidden_by_a_median() -> None:
    sim = Simulated(8)
    turns = [*sim.turns(9), sim.turn(9, underrun_s=0.5)]
    row = table(turns)["playback"]
    assert row.verdict is Verdict.TOO_FEW and "1 of 10 replies had gaps" in row.note


def test_synthesis_follows_its_law() -> None:
    assert table(Simulated(9).turns(12))["synthesis"].verdict is Verdict.PASS
    assert table(Simulated(9, Voice(patch_s=0.095)).turns(12))["synthesis"].verdict is Verdict.HIGH


def test_a_prefix_cache_hit_is_impossible_and_its_cause_named() -> None:
    tokens = 500
    row = table(Simulated(10).turns(12, prefill_s=tokens / 91_240, prompt_tokens=tokens))["prefill"]
    assert row.verdict is Verdict.IMPOSSIBLE
    assert "prefix cache answered about 95%" in row.note


def test_one_prefix_cache_hit_is_left_out_of_the_summary() -> None:
    sim = Simulated(10)
    turns, hit = sim.turns(12), sim.turn(12, prefill_s=0.005)
    with_hit, without = table([*turns, hit])["prefill"], table(turns)["prefill"]
    assert with_hit.measured == without.measured
    assert "1 of 13 figures are left out" in with_hit.note and "prefix cache" in with_hit.note


def test_tokens_faster_than_the_ceiling_are_impossible() -> None:
    row = table(Simulated(11).turns(12, token_s=0.004))["decode"]
    assert row.verdict is Verdict.IMPOSSIBLE and "wrong token count" in row.note


class SteppedClock:
    """Its wall clock is set forward by two seconds."""

    def __init__(self) -> None:
        self.monotonic, self.step_ns = 10**9, 0

    def now_ns(self) -> int:
        return self.monotonic

    def wall_ns(self) -> int:
        return 1_772_000_000 * 10**9 + self.monotonic + self.step_ns


@pytest.mark.parametrize("stepped_s", [2, -2])
def test_a_wall_clock_stepped_in_a_turn_changes_no_duration_and_is_told(tmp_path: Path, stepped_s: int) -> None:
    def run(folder: Path, step_s: int) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
        clock, sim = SteppedClock(), Simulated(12)
        writer = RunWriter(folder, "run", clock)
        for index in range(8):
            sim.now_ns = clock.monotonic
            turn = sim.turn(index)
            if index == 3:
                clock.step_ns = step_s * 10**9  # while the turn runs
            clock.monotonic = sim.now_ns
            writer.write_turn(turn)
        writer.close(complete=True)
        loaded = load_run(writer.folder)
        return loaded.turns, loaded.warnings

    steady, quiet = run(tmp_path / "steady", 0)
    stepped, warnings = run(tmp_path / "stepped", stepped_s)
    assert stepped == steady
    assert predictions(stepped, conditions(CALIBRATION)) == predictions(steady, conditions(CALIBRATION))
    assert quiet == () and len(warnings) == 1 and f"{stepped_s:+d}.000 s" in warnings[0]


def test_any_turn_that_a_timeline_can_hold_is_read() -> None:
    rng = random.Random(0)
    turns = [random_turn(rng, index) for index in range(400)] + [answered(), interrupted()]
    assert [row.law for row in predictions(turns, conditions(CALIBRATION))] == ROWS
    for turn in turns[:30]:
        assert list(table([turn], None)) == ROWS


def test_predictions_do_not_depend_on_the_order_of_turns() -> None:
    turns = Simulated(13).turns(9)
    forward, backward = table(turns), table(turns[::-1])
    for law in set(ROWS) - {"playback"}:
        assert forward[law].predicted == backward[law].predicted and forward[law].measured == backward[law].measured
    assert isinstance(forward["decode"].measured, Interval)
