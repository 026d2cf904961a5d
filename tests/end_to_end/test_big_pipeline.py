"""One replay through NeMo, llama.cpp's Gemma and VoxCPM2 on tiny random checkpoints, by the real command: the words are
nonsense, every count is right."""

import subprocess
import sys
from collections.abc import Sequence

import pytest
import soundfile

from agent.scenario import load_scenario
from profiling.critical_path import critical_path
from profiling.run import Run, load_run
from profiling.trace import vocabulary as v
from profiling.trace.timeline import Step, Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import loop_ns, turn_facts
from tests.tiny_models.gemma import SMALL, write_gemma
from tests.tiny_models.nemotron import write_nemotron
from tests.tiny_models.voxcpm import write_voxcpm

SCENARIO, CHUNK_MS, MAX_TOKENS, THINKING, DIFFUSION_STEPS = "do-something", 160, 12, 5, 4
PATCH_S, RATE_HZ = 0.16, 48_000
THOUGHT = ("<|channel>", "thought", *["▁we", "▁see", "▁an", "▁long", "▁way", "▁of", "▁water"])
REPLY = (*["▁hello", "▁the", "▁weather", "▁is", "▁sunny", "▁today"], ".", "<turn|>")
PATCH_PARTS = ("stop_check", "base_lm", "residual_lm", "diffusion", "local_encoder", "vae")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("big")
    asr, llm, tts = folder / "tiny.nemo", folder / "tiny.gguf", folder / "tiny-voxcpm2"
    write_nemotron(asr)
    write_gemma(llm, script=(*THOUGHT, "<channel|>", *REPLY))
    write_voxcpm(tts)
    command = [
        sys.executable,
        "-m",
        "agent.cli",
        "replay",
        SCENARIO,
        SCENARIO,
        "--no-calibrate",
        "--content",
        "--runs",
        str(folder / "runs"),
    ]
    command += ["--asr", str(asr), "--llm", str(llm), "--tts", str(tts), "--chunk", str(CHUNK_MS)]
    command += ["--max-tokens", str(MAX_TOKENS), "--thinking", str(THINKING)]
    command += ["--diffusion-steps", str(DIFFUSION_STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (runs,) = (folder / "runs").iterdir()
    return load_run(runs)


@pytest.fixture(scope="module")
def turn(run: Run) -> Turn:
    return run.turns[0]


def steps(turn: Turn, *stages: Stage) -> list[Step]:
    return [step for step in turn.steps if step.stage in stages]


def entries(step: Step, name: str) -> Sequence[int]:
    values = step.attributes[name]
    assert isinstance(values, tuple)
    return values  # type: ignore[return-value]


def test_the_turn_is_answered_aloud_and_its_path_sums(run: Run, turn: Turn) -> None:
    content = run.contents[0]
    assert turn.end_reason is EndReason.COMPLETED and content is not None and content.transcript
    assert content is not None and content.reply == "hello the weather is sunny today."
    path = critical_path(turn)
    assert path is not None and path.total_ns == turn.latency_ns
    sound, rate_hz = soundfile.read(run.folder / "conversation.wav", dtype="float32")
    assert rate_hz == RATE_HZ and abs(sound[:, 1]).max() > 0.01


def test_the_same_words_cost_the_same_prefill_in_every_conversation(run: Run) -> None:
    first, second = (turn.groups[(v.LLM, None)] for turn in run.turns)
    for count in (v.INPUT_TOKENS, v.CACHED_TOKENS, v.LLM_EVALUATED_TOKENS):
        assert first[count] == second[count]
    assert int(str(first[v.LLM_EVALUATED_TOKENS])) > 4


def test_spans_carry_the_engines_names(run: Run) -> None:
    trace = (run.folder / "trace.jsonl").read_text()
    for name in ("speech_to_text tiny", "chat tiny", "text_to_speech tiny-voxcpm2"):
        assert f'"name":"{name}"' in trace


def test_every_chunk(turn: Turn) -> None:
    recognised = steps(turn, Stage.ASR_PARTIAL, Stage.ASR_FINALIZE)
    chunks = sum(len(loop_ns(step) or ()) for step in recognised)
    group = turn.groups[(v.ASR, None)]
    assert group[v.ASR_CHUNKS] == chunks and group[v.ASR_CHUNK_S] == CHUNK_MS / 1000 and group[v.ASR_RIGHT_CONTEXT] == 1
    speech_s, encoded_s = (float(str(group[key])) for key in (v.ASR_SPEECH_S, v.ASR_ENCODED_S))
    assert encoded_s == pytest.approx(chunks * CHUNK_MS / 1000)  # no frame is encoded twice, and none is missed:
    assert speech_s <= encoded_s <= speech_s + 2 * CHUNK_MS / 1000
    for step in recognised:
        parts = [entries(step, v.ASR_PART_NS.format(part)) for part in ("features", "encoder", "decoder")]
        passes = loop_ns(step) or []
        assert [sum(each) for each in zip(*parts, strict=True)] == passes
    spoken_s = load_scenario(SCENARIO).utterances[0].last_voiced_s
    assert spoken_s is not None and float(str(group[v.ASR_FINAL_AFTER_S])) > 0


def test_every_token_and_byte(turn: Turn) -> None:
    thought, spoken = steps(turn, Stage.LLM_THINKING), steps(turn, Stage.LLM_FIRST_PHRASE, Stage.LLM_DECODE)
    group = turn.groups[(v.LLM, None)]
    unspoken, visible = (sum(len(loop_ns(step) or ()) for step in those) for those in (thought, spoken))
    assert unspoken == THINKING + 2 and visible == len(REPLY)  # a thought's tags are unspoken, too
    assert group[v.UNSPOKEN_TOKENS] == unspoken and group[v.OUTPUT_TOKENS] == unspoken + visible
    assert group[v.INPUT_TOKENS] == int(str(group[v.CACHED_TOKENS])) + int(str(group[v.LLM_EVALUATED_TOKENS]))
    weights = int(str(group[v.LLM_WEIGHT_BYTES]))
    for step in (*thought, *spoken):
        kv = entries(step, v.LLM_KV_BYTES)
        assert len(kv) == len(loop_ns(step) or ())
        once = weights * int(str(step.attributes[v.WORK_STEPS])) + sum(kv)
        row = 2 * SMALL.embedding  # of the embeddings, f16: a tag is evaluated in one batch with the token before it
        assert step.attributes[v.WORK_BYTES] == once + (row if step in thought else 0)


def test_every_patch(turn: Turn) -> None:
    phrases = sorted(phrase for group, phrase in turn.groups if group == v.TTS and phrase is not None)
    for phrase in phrases:
        group = turn.groups[(v.TTS, phrase)]
        those = [s for s in steps(turn, Stage.TTS_FIRST_PATCH, Stage.TTS_PATCHES) if s.phrase == phrase]
        patches = sum(len(loop_ns(step) or ()) for step in those)
        assert group[v.TTS_PATCHES] == patches > 0
        assert float(str(group[v.TTS_AUDIO_S])) == pytest.approx(patches * PATCH_S)
        assert group[v.TTS_DIFFUSION_STEPS] == DIFFUSION_STEPS
        for step in those:
            passes = loop_ns(step) or []
            parts = [entries(step, v.TTS_PATCH_PART_NS.format(part)) for part in PATCH_PARTS]
            assert all(sum(part) <= whole for part, whole in zip(zip(*parts, strict=True), passes, strict=True))
            assert set(entries(step, v.TTS_FORWARDS)) == {DIFFUSION_STEPS - 1}
    (setup, *_) = steps(turn, Stage.TTS_SETUP)
    assert int(str(setup.attributes[v.TTS_UNITS])) > 0
    assert {"tokenise", "prefill"} <= turn_facts(turn).tts_setup_parts_ns.keys()
