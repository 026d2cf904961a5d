"""A call from headless Chromium to `turnscope serve` with the real models: a WAV is its microphone, and what arrives in
the page is recorded there."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jiwer
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from agent import models
from agent.asr.moonshine import MoonshineEngine
from agent.audio.resample import resample
from agent.scenario import load_scenario
from agent.tts.speakable import speakable
from profiling.critical_path import critical_path
from profiling.report.wording import LABEL
from profiling.run import Run, load_run
from profiling.trace import vocabulary as v
from profiling.trace.clock import SystemClock
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason, Stage
from profiling.turn import described
from tests.web.added import ADDED, arrived, speak
from tests.web.browser import DESKTOP, PHONE, Watched, chromium, driver, until, write_microphone

TABLE = """turn => [...turn.querySelectorAll("tr[data-name]")]
  .map(row => [row.dataset.name, [...row.cells].map(cell => cell.textContent)])"""
FIRST_S = 1.5  # of silence, in which the page connects
FRANCE, _, STORY, ITALY = (utterance.recording.samples for utterance in load_scenario("capital-cities").utterances)


@dataclass
class Talked:
    """What the page showed at the end, what it had played, and what the server wrote of it."""

    you: list[str]
    agent: list[str]
    unheard: list[str]
    lines: list[str]
    tables: list[dict[str, list[str]]]
    sound: np.ndarray
    drawn_after_ms: list[float]
    states: list[str]
    printed: list[str]
    report: str
    runs: list[Run]
    output: str = ""
    turns: list[Turn] = field(default_factory=list)


@contextmanager
def served(runs: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "agent.cli", "serve", "--port", "0", "--no-calibrate", "--max-tokens", "64"]
    server = subprocess.Popen(
        [*command, "--content", "--runs", str(runs)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://\S+/", line):
                yield found[0], server
                break
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=10)


def answered(page: Page, number: int) -> None:
    """Wait until the turn is over."""
    expect(page.locator(f"[data-turn='{number}'] .wait[data-complete='true']")).to_be_attached(timeout=30_000)


def heard(page: Page, number: int) -> None:
    expect(page.locator(f"[data-turn='{number}'] tr[data-name='heard']")).to_be_attached(timeout=30_000)


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Talked:
    folder = tmp_path_factory.mktemp("page")
    runs, asked = folder / "runs", resample(STORY, 16_000, 48_000)
    wav = write_microphone(folder / "microphone.wav", [np.zeros(round(FIRST_S * 48_000), np.float32), asked])
    with driver() as playwright, served(runs) as (address, server), chromium(playwright, wav) as browser:
        context = browser.new_context(viewport=DESKTOP)
        context.add_init_script(ADDED)
        watched = Watched(context)
        page = watched.page
        page.goto(address)
        watched.screenshot("real-idle")
        page.get_by_role("button", name="Start talking").click()
        heard(page, 1)
        page.wait_for_timeout(300)
        watched.screenshot("real-speaking")
        speak(page, ITALY)
        heard(page, 2)
        page.evaluate("peers.at(-1).close()")
        until(lambda: watched.states()[-3:] == ["reconnecting", "waiting", "listening"])
        speak(page, FRANCE)
        heard(page, 3)
        answered(page, 3)
        watched.screenshot("real-call")
        page.set_viewport_size(PHONE)
        watched.screenshot("real-call-phone", full=True)
        talked = read(watched)
        page.get_by_role("button", name="Hang up").click()
        page.wait_for_timeout(500)
        server.send_signal(signal.SIGINT)
        assert server.stdout is not None
        talked.output = server.stdout.read()
        talked.printed = list(watched.printed)
        context.close()
    talked.runs = sorted((load_run(run) for run in runs.iterdir()), key=lambda run: run.turns[0].speech_end_ns or 0)
    talked.turns = [turn for run in talked.runs for turn in run.turns]
    return talked


def read(watched: Watched) -> Talked:
    page = watched.page
    address, reports = page.locator("#report").evaluate("link => link.href"), [""]
    while "What is the capital of France" not in reports[-1] and len(reports) < 50:  # it is written after it is shown
        reports.append(page.request.get(address).text())
        page.wait_for_timeout(100)
    return Talked(
        you=page.locator(".said.you .words").all_inner_texts(),
        agent=page.locator(".said.agent .words").all_inner_texts(),
        unheard=page.locator(".unheard").all_inner_texts(),
        lines=page.locator(".line").all_inner_texts(),
        tables=[dict(turn.evaluate(TABLE)) for turn in page.locator("[data-turn]").all()],
        sound=arrived(page),
        drawn_after_ms=page.evaluate("Object.values(drawnAt).map((at, i) => at - Object.values(audibleAt)[i])"),
        states=watched.states(),
        printed=[],
        report=reports[-1],
        runs=[],
    )


def test_the_page_shows_what_was_said_also_across_an_interruption_and_a_reconnection(talked: Talked) -> None:
    story, question = "tell me a story about a dragon and a princess", "what is the capital of"
    asked = [story, f"actually {question} italy", f"{question} france"]
    assert jiwer.wer(asked, [plain(text) for text in talked.you]) <= 0.15, talked.you
    assert all(talked.agent)
    assert [turn.end_reason for turn in talked.turns[:1]] == [EndReason.INTERRUPTED]
    said = ["listening", "hearing", "thinking", "speaking"]
    assert talked.states[:2] == ["idle", "connecting"]
    assert [state for state in talked.states if state in said][:5] == [*said, "hearing"]
    assert talked.states[-4:] == ["hearing", "thinking", "speaking", "listening"]
    assert "reconnecting" in talked.states
    prompts = [described(turn, v.LLM, v.INPUT_TOKENS) for turn in talked.turns]
    assert all(prompts) and prompts == sorted(prompts), prompts  # history grows, also across the reconnection


def test_the_interrupted_reply_is_marked_where_it_was_cut(talked: Talked) -> None:
    content = talked.runs[0].contents[0]
    assert content is not None and content.reply
    shown = talked.agent[0].removesuffix(" not heard")
    assert shown == f"{content.reply.strip()} {talked.unheard[0]}".strip()
    assert talked.unheard[0]


def test_the_sound_that_arrived_in_the_page_says_the_replies(talked: Talked) -> None:
    recogniser = MoonshineEngine(models.locate("moonshine-base-en"), clock=SystemClock())
    told = " ".join(recogniser.open().finalize(part, lambda: False).text for part in spoken(talked.sound))
    replies = [content.reply or "" for run in talked.runs for content in run.contents if content]
    assert len(replies) == 3
    due = plain(speakable(" ".join(replies))).split()
    missing = [word for word in due if word not in plain(told).split()]
    assert len(missing) <= 0.3 * len(due), (due, told)


def test_the_waterfalls_figures_are_those_of_the_turns_in_the_run(talked: Talked) -> None:
    assert len(talked.tables) == len(talked.turns) == 3
    for table, turn, line in zip(talked.tables, talked.turns, talked.lines, strict=True):
        path = critical_path(turn)
        assert path is not None
        for stage in Stage:
            cells, spent_ms = table.get(stage, ["", "", ""]), path.totals.get(stage, 0) / 1e6
            assert float(cells[1] or 0) == pytest.approx(spent_ms, abs=0.11), stage
            assert cells[0] in ("", LABEL[stage])
        assert float(table["latency"][1]) == pytest.approx(path.total_ns / 1e6, abs=0.06)
        assert f"You waited {path.total_ns / 1e6:.0f} ms: " in line


def test_a_turn_is_drawn_while_its_reply_is_spoken_and_heard_after_it_has_left(talked: Talked) -> None:
    assert len(talked.drawn_after_ms) == 3
    for table, turn in zip(talked.tables, talked.turns, strict=True):
        heard_ns, error_s = turn.attributes[v.TURN_HEARD_NS], turn.attributes[v.TURN_HEARD_ERROR_S]
        assert isinstance(heard_ns, int) and isinstance(error_s, float)
        assert turn.first_audio_ns is not None and turn.speech_end_ns is not None
        assert heard_ns > turn.first_audio_ns
        assert 0 < error_s < 0.5
        assert float(table["heard"][1]) == pytest.approx((heard_ns - turn.speech_end_ns) / 1e6, abs=0.06)


def test_the_report_is_a_page_and_nothing_was_printed_to_the_console(talked: Talked) -> None:
    assert "<html" in talked.report and "What is the capital of France" in talked.report
    assert talked.printed == []
    assert "Traceback" not in talked.output


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9 ]+", " ", text.lower().replace("'", ""))


def spoken(sound: np.ndarray, rate_hz: int = 16_000, pause_s: float = 0.7) -> list[np.ndarray]:
    """The parts between long silences."""
    block = rate_hz // 100
    loud = np.flatnonzero(np.sqrt((sound[: len(sound) // block * block].reshape(-1, block) ** 2).mean(1)) > 0.003)
    groups = np.split(loud, np.flatnonzero(np.diff(loud) > pause_s * 100) + 1)
    return [sound[max(0, group[0] - 10) * block : (group[-1] + 10) * block] for group in groups]
