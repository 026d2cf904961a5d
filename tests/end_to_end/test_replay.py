"""One replay of the bundled recordings, at real pace, through the real command, models and files."""

import itertools
import json
import re
import subprocess
import sys
from dataclasses import dataclass

import jiwer
import numpy as np
import pytest
import soundfile

from agent import models
from agent.asr.moonshine import MoonshineEngine
from agent.audio.resample import resample
from agent.scenario import load_scenario
from agent.tts.speakable import speakable
from profiling.critical_path import critical_path
from profiling.run import Run, load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage

HUMAN = ("go-forward", "do-something", "playing-cards", "sense-and-sensibility")
SYNTHETIC = "capital-cities"
MOST_LAG = 220  # samples, 10 ms
NOTHING_TO_ANSWER = "silence"
SPELLINGS = {"meters": "metres", "mister": "mr", "10": "ten", "gray": "grey"}


@dataclass(frozen=True)
class Replayed:
    run: Run
    output: str
    user: np.ndarray
    agent: np.ndarray
    rate_hz: int


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    runs = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "agent.cli", "replay", *HUMAN, SYNTHETIC, NOTHING_TO_ANSWER, "--no-calibrate"]
    done = subprocess.run(
        [*command, "--content", "--max-tokens", "48", "--runs", str(runs)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = runs.iterdir()
    sound, rate_hz = soundfile.read(folder / "conversation.wav", dtype="float32")
    return Replayed(load_run(folder), done.stdout, sound[:, 0], sound[:, 1], rate_hz)


def words(text: str) -> str:
    plain = re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("-", " "))
    return " ".join(SPELLINGS.get(word, word) for word in plain.split())


def start_ns(replayed: Replayed) -> int:
    """The first sample of the recording on the monotonic clock: S of the first turn is known on both."""
    first = replayed.run.turns[0]
    utterance = load_scenario(HUMAN[0]).utterances[0]
    assert first.speech_end_ns is not None and utterance.last_voiced_sample is not None
    return first.speech_end_ns - round((utterance.delay_s * 16_000 + utterance.last_voiced_sample) / 16_000 * 1e9)


def reply_audio(replayed: Replayed, turn: Turn) -> np.ndarray:
    assert turn.first_audio_ns is not None and turn.end_ns is not None
    first, last = (
        round((ns - start_ns(replayed)) / 1e9 * replayed.rate_hz) for ns in (turn.first_audio_ns, turn.end_ns)
    )
    return replayed.agent[max(0, first - replayed.rate_hz // 10) : last]


def test_every_utterance_is_answered_and_silence_is_not(replayed: Replayed) -> None:
    expected = sum(load_scenario(name).expect_turns for name in (*HUMAN, SYNTHETIC, NOTHING_TO_ANSWER))
    assert len(replayed.run.turns) == expected
    reasons = {turn.end_reason for turn in replayed.run.turns}
    assert reasons <= {EndReason.COMPLETED, EndReason.INTERRUPTED}
    assert all(turn.latency_ns is not None for turn in replayed.run.turns)


def test_human_speech_is_recognised(replayed: Replayed) -> None:
    said = [utterance.transcript for name in HUMAN for utterance in load_scenario(name).utterances]
    heard = [content.transcript for content in replayed.run.contents[: len(said)] if content and content.transcript]
    assert len(heard) == len(said)
    error_rate = jiwer.wer([words(text or "") for text in said], [words(text) for text in heard])
    assert error_rate <= 0.15, list(zip(said, heard, strict=True))


def test_the_replies_are_speech_that_says_what_the_text_says(replayed: Replayed) -> None:
    engine = MoonshineEngine(models.locate("moonshine-base-en"), clock=SystemClock())
    said, heard = [], []
    for turn, content in zip(replayed.run.turns, replayed.run.contents, strict=True):
        if turn.end_reason is EndReason.COMPLETED and content and content.reply:
            sound = resample(reply_audio(replayed, turn), replayed.rate_hz, 16_000)
            said.append(words(speakable(content.reply)))
            heard.append(words(speakable(engine.open().finalize(sound, lambda: False).text)))
    assert len(said) >= 10
    assert jiwer.wer(said, heard) <= 0.25, list(zip(said, heard, strict=True))


def test_every_path_is_contiguous_and_sums_to_the_nanosecond(replayed: Replayed) -> None:
    for turn in replayed.run.turns:
        path = critical_path(turn)
        assert path is not None and turn.speech_end_ns is not None and turn.first_audio_ns is not None
        assert path.total_ns == turn.first_audio_ns - turn.speech_end_ns == sum(path.totals.values())
        assert path.segments[0].start_ns == turn.speech_end_ns and path.segments[-1].end_ns == turn.first_audio_ns
        assert all(one.end_ns == two.start_ns for one, two in itertools.pairwise(path.segments))


def test_spans_nest_and_carry_the_names_of_the_design(replayed: Replayed) -> None:
    lines = (replayed.run.folder / "trace.jsonl").read_text().splitlines()
    assert len(lines) == len(replayed.run.turns)
    for line in lines:
        spans = [span for r in json.loads(line)["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]
        by_id = {span["spanId"]: span for span in spans}
        roots = [span for span in spans if not span.get("parentSpanId")]
        assert [span["name"] for span in roots] == [v.AGENT]
        assert len({span["traceId"] for span in spans}) == 1
        for span in spans:
            parent = by_id.get(span.get("parentSpanId", ""), span)
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
        names = {span["name"] for span in spans}
        assert {"endpoint", "speech_to_text moonshine-base-en", "finalize", "prefill", "decode", "playout"} <= names
        assert {"chat smollm2-135m", "text_to_speech piper-en-us-joe", "setup", "patches"} <= names


def test_the_agent_is_silent_soon_after_a_barge_in_and_the_history_of_it_is_short(replayed: Replayed) -> None:
    (number,) = (i for i, turn in enumerate(replayed.run.turns) if turn.end_reason is EndReason.INTERRUPTED)
    turn, after = replayed.run.turns[number], replayed.run.turns[number + 1]
    assert isinstance(turn.attributes[v.TURN_BARGE_IN_STOP_S], float)
    assert 0 < int(str(turn.attributes[v.TURN_HEARD_WORDS])) < int(str(turn.attributes[v.TURN_REPLY_WORDS]))
    assert after.first_audio_ns is not None and after.speech_end_ns is not None
    origin_ns = start_ns(replayed)
    quiet = [round((ns - origin_ns) / 1e9 * replayed.rate_hz) for ns in (after.speech_end_ns, after.first_audio_ns)]
    assert np.abs(replayed.agent[quiet[0] : quiet[1] - replayed.rate_hz // 10]).max() == 0


def test_both_sides_share_one_clock(replayed: Replayed) -> None:
    origin_ns = start_ns(replayed)
    utterances = [utterance for name in (*HUMAN, SYNTHETIC) for utterance in load_scenario(name).utterances]
    for turn, utterance in zip(replayed.run.turns, utterances, strict=True):
        assert turn.speech_end_ns is not None and utterance.last_voiced_s is not None
        start_s = (turn.speech_end_ns - origin_ns) / 1e9 - utterance.last_voiced_s
        said = resample(utterance.recording.samples, 16_000, replayed.rate_hz)
        start = round(start_s * replayed.rate_hz)
        near = replayed.user[start - MOST_LAG : start + len(said) + MOST_LAG]
        lag = int(np.argmax(np.correlate(near, said, "valid"))) - MOST_LAG
        assert abs(lag) <= 1, f"{lag} samples"


def test_kv_prefix_is_kept_across_the_turns_of_a_conversation(replayed: Replayed) -> None:
    last = replayed.run.turns[-1].groups[(v.LLM, None)]
    prompt, cached, evaluated = (int(str(last[k])) for k in (v.INPUT_TOKENS, v.CACHED_TOKENS, v.LLM_EVALUATED_TOKENS))
    assert prompt == cached + evaluated and cached > 3 * evaluated


def test_the_terminal_tells_the_same_story_live_and_from_the_folder(replayed: Replayed) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "agent.cli", "explain", str(replayed.run.folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    for text in (replayed.output, told.stdout):
        for row in ("endpoint wait", "final transcript", "host (our code)", "queue", "unattributed", "turn latency"):
            assert text.count(f"  {row} ") >= len(replayed.run.turns)
    live = [line.rstrip() for line in replayed.output.splitlines() if line.startswith("  turn latency")]
    again = [line.rstrip() for line in told.stdout.splitlines() if line.startswith("  turn latency")]
    assert live == again


def test_every_turn_went_through_every_stage(replayed: Replayed) -> None:
    for turn in replayed.run.turns:
        stages = {step.stage for step in turn.steps}
        assert {
            Stage.ENDPOINT_WAIT,
            Stage.ASR_FINALIZE,
            Stage.LLM_PREFILL,
            Stage.TTS_SETUP,
            Stage.TTS_FIRST_PATCH,
        } <= stages
