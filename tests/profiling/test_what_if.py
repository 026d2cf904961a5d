"""What would be otherwise: each change against what the same engines really do with it."""

import io
import random
import statistics
from collections.abc import Sequence

import pytest
from rich.console import Console

from profiling.calibration import Calibration, Sample
from profiling.changes.change import Change, ChangeRefused
from profiling.changes.recogniser import AsrChunk
from profiling.changes.roofline import Bandwidth, ComputeRate
from profiling.changes.thinking import ThinkingTokens
from profiling.changes.voice import DiffusionSteps, FewerPatches, FirstPatchShare
from profiling.changes.waits import Hangover, NoEndpointWait
from profiling.changes.weight_format import WeightFormat
from profiling.environment import Machine
from profiling.evidence import Evidence
from profiling.operations import ASR_STEP, ENCODED_S, PASSES
from profiling.report.what_if import print_what_if
from profiling.report.wording import LABEL
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.what_if import WhatIf, what_if
from profiling.work_book import WorkBook
from tests.profiling.simulated_runs import NS, Pipeline, changed, evidence, run
from tests.profiling.turns import MS, answered, interrupted, random_turn

BASE = Pipeline()
NOTHING_KNOWN = Evidence(WorkBook(), None, {})


def asked(pipeline: Pipeline, *changes: Change) -> WhatIf:
    return what_if(run(pipeline), changes, evidence(pipeline))


def rows(result: WhatIf) -> dict[Stage, float]:
    """How much each stage changes, in ms; those that stay are left out."""
    found = {row.stage: round((row.after.value - row.before) * 1000, 3) for row in result.rows if row.stage}
    return {stage: change for stage, change in found.items() if abs(change) > 0.0005}


def latency_s(turns: Sequence[Turn]) -> float:
    return statistics.median(turn.latency_ns or 0 for turn in turns) / NS


@pytest.mark.parametrize(
    ("change", "really"),
    [
        (Bandwidth(80e9), {"bandwidth": 80e9}),
        (Bandwidth(20e9), {"bandwidth": 20e9}),
        (ComputeRate(800e9), {"flops": 800e9}),
        (WeightFormat("Q8_0"), {"bits": 8.5}),
        (WeightFormat("f16"), {"bits": 16}),
        (ThinkingTokens(20), {"thinking": 20}),
        (DiffusionSteps(4), {"diffusion_steps": 4}),
        (DiffusionSteps(20), {"diffusion_steps": 20}),
        (NoEndpointWait(), {"hangover_s": 0.0}),
    ],
)
def test_without_noise_a_change_gives_what_the_changed_pipeline_takes(change: Change, really: dict[str, float]) -> None:
    result = asked(BASE, change)
    assert result.latency.before == pytest.approx(latency_s(run(BASE)), abs=1e-9)
    assert result.latency.after.value == pytest.approx(latency_s(run(changed(BASE, **really))), abs=2e-6)
    assert result.latency.after.low <= result.latency.after.value <= result.latency.after.high


def test_several_changes_count_together_in_whatever_order_they_are_asked_for() -> None:
    really = changed(BASE, bandwidth=80e9, bits=8.5, thinking=20, diffusion_steps=5, flops=1e12)
    changes = [Bandwidth(80e9), ThinkingTokens(20), WeightFormat("Q8_0"), DiffusionSteps(5), ComputeRate(1e12)]
    for order in (changes, changes[::-1]):
        assert asked(BASE, *order).latency.after.value == pytest.approx(latency_s(run(really)), abs=3e-6)


def test_thinking_less_or_not_at_all() -> None:
    thoughtful = changed(BASE, thinking=30)
    for tokens in (0, 10, 30, 45):
        result = asked(thoughtful, ThinkingTokens(tokens))
        assert result.latency.after.value == pytest.approx(latency_s(run(changed(BASE, thinking=tokens))), abs=2e-6)
    assert "instead of 30" in " ".join(asked(thoughtful, ThinkingTokens(10)).caveats)


@pytest.mark.parametrize("tokens", [0, 1, 10, 30, 45])
def test_the_tags_around_a_thought_stay_as_long_as_there_is_one(tokens: int) -> None:
    thoughtful = changed(BASE, thinking=30, tag_tokens=3)
    result = asked(thoughtful, ThinkingTokens(tokens))
    assert result.latency.after.value == pytest.approx(latency_s(run(changed(thoughtful, thinking=tokens))), abs=2e-6)
    assert "instead of 30" in " ".join(result.caveats)


def test_tags_that_nobody_has_seen_are_told_not_to_count() -> None:
    assert "Tags that open and close" in " ".join(asked(BASE, ThinkingTokens(20)).caveats)
    assert "Tags that open and close" not in " ".join(asked(BASE, ThinkingTokens(0)).caveats)


def test_a_thought_that_is_gone_meets_no_other_change() -> None:
    thoughtful = changed(BASE, thinking=30)
    together = asked(thoughtful, ThinkingTokens(0), AsrChunk(0.64), Hangover(0.3), Bandwidth(80e9))
    assert [row.after.value for row in together.rows if row.stage is Stage.LLM_THINKING] == [0.0]
    assert together.latency.after.value < asked(thoughtful, AsrChunk(0.64), Hangover(0.3)).latency.after.value


def test_only_the_stages_that_a_change_touches_move() -> None:
    """By hand: 1e9 weights at 4.5 bits and 1e6 at 32 are 0.5665 GB, which take 14.1625 ms to read; at 80 GB/s half."""
    shares = rows(asked(BASE, Bandwidth(80e9)))
    kv_ms = sum((60 + k) * 100e3 for k in range(8)) / 40e9 * 1000
    assert shares == {Stage.LLM_FIRST_PHRASE: pytest.approx(-(8 * 14.1625 + kv_ms) / 2, abs=0.001)}
    assert rows(asked(BASE, DiffusionSteps(4))) == {Stage.TTS_FIRST_PATCH: -36.0}, "six forwards of 6 ms"
    assert rows(asked(BASE, NoEndpointWait())) == {Stage.ENDPOINT_WAIT: -200.0}
    assert rows(asked(BASE, FirstPatchShare(0.5))) == {Stage.TTS_FIRST_PATCH: -37.0}


def test_more_bandwidth_helps_until_arithmetic_binds() -> None:
    slow_arithmetic = changed(BASE, flops=200e9)  # 10 ms per token
    for bandwidth in (40e9, 60e9, 400e9, 4e12):
        result = asked(slow_arithmetic, Bandwidth(bandwidth))
        really = latency_s(run(changed(slow_arithmetic, bandwidth=bandwidth)))
        assert result.latency.after.value == pytest.approx(really, abs=2e-6)


def test_the_hangover_ends_with_a_frame_of_the_voice_detector() -> None:
    result = asked(BASE, Hangover(0.5))
    assert rows(result) == {Stage.ENDPOINT_WAIT: 316.0}
    longer = result.latency.after.low - result.latency.before, result.latency.after.high - result.latency.before
    assert 0.3 <= longer[0] <= 0.306 and 0.326 <= longer[1] <= 0.332


def test_an_unflushed_chunk_is_waited_for_half_of_it_less_what_the_hangover_hides() -> None:
    unflushed = changed(BASE, flush=False)
    turns = run(unflushed, turns=9)
    result = what_if(turns, [AsrChunk(1.12)], evidence(unflushed))
    (waits,) = [row.after for row in result.rows if row.stage is Stage.ASR_CHUNK_WAIT]
    assert waits.value == pytest.approx(1.12 / 2 - 0.2, abs=1e-6)
    assert waits.low < waits.value < waits.high <= 1.12 - 0.2
    assert any("half a chunk" in sentence for sentence in result.caveats)
    hidden = what_if(turns, [AsrChunk(0.08)], evidence(unflushed))
    assert Stage.ASR_CHUNK_WAIT not in {row.stage for row in hidden.rows if row.after.value > 0}


def test_a_flushed_chunk_costs_its_pass_and_no_wait() -> None:
    result = asked(BASE, AsrChunk(0.64))
    (final,) = [row.after for row in result.rows if row.stage is Stage.ASR_FINALIZE]
    assert final.low == pytest.approx(0.03, abs=0.003) and final.high == pytest.approx(0.06, abs=0.003)
    assert Stage.ASR_CHUNK_WAIT not in {row.stage for row in result.rows}
    assert any("no chunk is waited for" in sentence for sentence in result.caveats)
    assert any("one size of chunk" in sentence for sentence in result.caveats)


def test_a_pass_over_another_chunk_costs_what_the_calibrated_law_says() -> None:
    samples = [
        Sample(
            operation=ASR_STEP,
            duration_s=passes * (0.01 + chunk_s / 16),
            units={PASSES: float(passes), ENCODED_S: passes * chunk_s},
        )
        for chunk_s in (0.16, 0.32, 0.56, 1.12)
        for passes in (1, 2, 3)
    ]
    known = evidence(BASE)
    calibrated = Evidence(known.work_book, calibration(samples), known.ceilings)
    result = what_if(run(BASE), [AsrChunk(0.64)], calibrated)
    assert rows(result) == {Stage.ASR_FINALIZE: 20.0}, "0.03 s, and 0.32 s more of sound"
    assert not any("calibrat" in sentence for sentence in result.caveats)
    beyond = what_if(run(BASE), [AsrChunk(2.24)], calibrated)
    assert any("outside" in sentence for sentence in beyond.caveats)


def test_a_recogniser_that_hears_all_anew_has_the_chunk_for_its_partials_only() -> None:
    result = what_if([answered()], [AsrChunk(0.08)], NOTHING_KNOWN)
    assert rows(result) == {} and result.latency.after.value == result.latency.before
    assert any("only the cadence of partial transcripts" in sentence for sentence in result.caveats)


def test_quicker_patches_need_fewer_of_them_before_playback() -> None:
    slow = changed(BASE, forward_s=0.02)  # 200 ms a patch: two of them outlast the making of the next
    assert rows(asked(slow, DiffusionSteps(4))) == {Stage.TTS_FIRST_PATCH: -120.0, Stage.PLAYOUT_BUFFER: -200.0}
    for steps in (4, 8, 16):
        really = latency_s(run(changed(slow, diffusion_steps=steps)))
        assert asked(slow, DiffusionSteps(steps)).latency.after.value == pytest.approx(really, abs=2e-6)
    assert rows(asked(slow, FewerPatches(1))) == {Stage.PLAYOUT_BUFFER: -200.0}


def speculative(wait_ms: int) -> Turn:
    """The reply is made while the silence lasts: its first patch is there 300 ms after the end of speech."""
    turn = Turn("c", 1, 0, speech_end_ns=NS, speech_end_estimated=False)
    wait = turn.add(Stage.ENDPOINT_WAIT, NS, NS + wait_ms * MS, attributes={v.WHAT: "hangover"})
    final = turn.add(Stage.ASR_FINALIZE, NS, NS + 100 * MS)
    tokens = {
        v.START_TIMES_NS: [k * 10 * MS for k in range(10)],
        v.END_TIMES_NS: [(k + 1) * 10 * MS for k in range(10)],
    }
    phrase = turn.add(Stage.LLM_FIRST_PHRASE, NS + 100 * MS, NS + 200 * MS, [final], attributes=tokens)
    patch = turn.add(Stage.TTS_FIRST_PATCH, NS + 200 * MS, NS + 300 * MS, [phrase], phrase=0)
    ready = NS + max(wait_ms, 300) * MS
    buffer = turn.add(Stage.PLAYOUT_BUFFER, ready, ready + 10 * MS, [wait, patch])
    turn.first_audio_step, turn.first_audio_ns = buffer, ready + 10 * MS
    turn.end_ns, turn.end_reason = NS + 5 * NS, EndReason.COMPLETED
    return turn


def test_a_change_beside_the_path_moves_nothing_while_it_has_slack_and_then_the_path_switches() -> None:
    hidden = what_if([speculative(800)], [ThinkingTokens(30)], NOTHING_KNOWN)
    assert rows(hidden) == {} and hidden.switched == 0 and hidden.latency.after.value == hidden.latency.before
    seen = what_if([speculative(800)], [ThinkingTokens(80)], NOTHING_KNOWN)
    assert seen.switched == 1
    assert seen.latency.after.value - seen.latency.before == pytest.approx(0.3, abs=1e-9), "800 ms less 500 of slack"
    assert rows(seen)[Stage.ENDPOINT_WAIT] == -800.0


def test_without_the_wait_the_path_runs_through_the_reply_itself() -> None:
    result = what_if([speculative(300)], [NoEndpointWait()], NOTHING_KNOWN)
    assert result.switched == 1 and result.latency.after.value == pytest.approx(0.31, abs=1e-9), "not 310 - 300"
    longer = what_if([speculative(800)], [NoEndpointWait()], NOTHING_KNOWN)
    assert longer.latency.after.value == pytest.approx(0.31, abs=1e-9), "the patch is there at 300 ms"


@pytest.mark.parametrize(
    ("change", "turns", "why"),
    [
        (WeightFormat("Q8_0"), [answered()], "the work of smollm2 is not known"),
        (WeightFormat("Q9_9"), run(BASE), "no weight format"),
        (Bandwidth(1e12), [answered()], "of no engine"),
        (ComputeRate(1e12), [answered()], "of no engine"),
        (DiffusionSteps(4), [answered()], "piper has no diffusion steps"),
        (ThinkingTokens(4), [interrupted()], "No turn"),
        (FewerPatches(1), [answered()], "there is none to spare"),
        (Hangover(0.3), [], "No turn"),
    ],
)
def test_what_cannot_be_said_is_refused_with_a_sentence(change: Change, turns: list[Turn], why: str) -> None:
    with pytest.raises(ChangeRefused, match=why):
        what_if(turns, [change], NOTHING_KNOWN)


def test_tokens_without_times_refuse_a_thinking_change() -> None:
    turn = answered()
    step = turn.steps[6]
    assert step.stage is Stage.LLM_FIRST_PHRASE
    bare = Turn("c", 1, 0, speech_end_ns=turn.speech_end_ns)
    for other in turn.steps:
        bare.add(other.stage, other.start_ns, other.end_ns, other.causes)
    bare.first_audio_ns, bare.first_audio_step = turn.first_audio_ns, turn.first_audio_step
    with pytest.raises(ChangeRefused, match="no time per token"):
        what_if([bare], [ThinkingTokens(4)], NOTHING_KNOWN)


def test_an_engine_whose_work_is_not_known_keeps_its_time_and_that_is_said() -> None:
    result = asked(BASE, Bandwidth(80e9))
    assert any("The work of voxcpm2 is not known" in sentence for sentence in result.caveats)
    assert any("another machine's memory" in sentence for sentence in result.caveats)


def test_random_turns_can_be_asked_anything() -> None:
    answers = 0
    for seed in range(60):
        turns = [random_turn(random.Random(seed * 10 + k)) for k in range(2)]
        for change in (ThinkingTokens(5), Hangover(0.3), NoEndpointWait(), AsrChunk(0.08), FirstPatchShare(0.5)):
            try:
                result = what_if(turns, [change], NOTHING_KNOWN)
            except ChangeRefused as refused:
                assert str(refused).endswith(".")
                continue
            answers += 1
            assert result.latency.after.low <= result.latency.after.value <= result.latency.after.high
    assert answers > 30


def test_what_is_really_changed_is_measured_inside_the_interval_in_at_least_36_of_40_trials() -> None:
    inside, widths = 0, []
    kinds: list[tuple[list[Change], dict[str, float]]] = [
        ([Bandwidth(80e9)], {"bandwidth": 80e9}),
        ([WeightFormat("Q8_0")], {"bits": 8.5}),
        ([ThinkingTokens(20)], {"thinking": 20}),
        ([DiffusionSteps(4)], {"diffusion_steps": 4}),
        ([AsrChunk(1.12)], {"chunk_s": 1.12}),
        (
            [ThinkingTokens(15), Bandwidth(60e9), DiffusionSteps(6)],
            {"thinking": 15, "bandwidth": 60e9, "diffusion_steps": 6},
        ),
    ]
    for trial in range(40):
        changes, really = kinds[trial % len(kinds)]
        noisy = changed(BASE, noise=0.06, flush="chunk_s" not in really)
        turns = run(noisy, turns=5, seed=trial)
        predicted = what_if(turns, changes, evidence(noisy, unsure=0.03), seed=trial).latency.after
        measured = latency_s(run(changed(noisy, **really), turns=5, seed=1000 + trial))
        inside += predicted.low <= measured <= predicted.high
        widths.append(predicted.half_width)
    assert inside >= 36
    assert statistics.median(widths) < 0.15, "an interval that holds everything says nothing"


def test_the_report_shows_before_after_and_between_for_every_stage_and_says_what_it_rests_on() -> None:
    turns = run(changed(BASE, noise=0.05), turns=4)
    result = what_if(turns, [Bandwidth(80e9), ThinkingTokens(20)], evidence(BASE, unsure=0.03))
    shown = printed(result)
    assert "What if: memory read at 80.0 GB/s and 20 thinking tokens" in shown
    lines = {line[2:22].strip(): line.split() for line in shown.splitlines()}
    for row in (*result.rows, result.latency):
        label = "turn latency" if row.stage is None else LABEL[row.stage]
        assert f"{row.after.value * 1000:,.1f}" in lines[label]
        assert f"{row.before * 1000:,.1f}" in lines[label]
    for sentence in result.caveats:
        assert sentence[:30] in " ".join(shown.split())
    assert "measured again, it would lie between" in " ".join(shown.split())


def test_one_turn_alone_sums_exactly_and_is_told_by_its_number() -> None:
    turns = run(changed(BASE, noise=0.05), turns=6)
    result = what_if(turns, [DiffusionSteps(4)], evidence(BASE, unsure=0.2), only=turns[2])
    assert result.turns == 1
    assert sum(row.after.value for row in result.rows) == pytest.approx(result.latency.after.value, abs=1e-9)
    assert result.latency.after.high - result.latency.after.low > 0.01, "the run tells how much steps differ"
    assert "turn 3" in printed(result, 3)


def printed(result: WhatIf, turn: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    print_what_if(console, result, turn)
    return console.file.getvalue()  # type: ignore[attr-defined]


def calibration(samples: Sequence[Sample]) -> Calibration:
    return Calibration(made="2026-01-01", machine=Machine.this(), engines={}, samples=tuple(samples))
