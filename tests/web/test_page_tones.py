"""The page and the real server, with engines of tones: what a change costs, an interruption, the sound that arrives."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from tests.web.added import ADDED, arrived, speak
from tests.web.browser import PHONE, Watched, chromium, write_microphone
from tests.web.tones import recognise, speech


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.web.serving_tones", str(tmp_path_factory.mktemp("runs"))]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        assert server.stdout.read() == ""


@pytest.fixture(scope="module")
def browser(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Its microphone is silent until a test speaks."""
    silence = write_microphone(tmp_path_factory.mktemp("microphone") / "silence.wav", [np.zeros(48_000, np.float32)])
    with chromium(playwright, silence) as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    context = browser.new_context(viewport=PHONE)
    context.add_init_script(ADDED)
    watched = Watched(context)
    watched.page.goto(address)
    watched.page.get_by_role("button", name="Start talking").click()
    expect(watched.page.locator("body")).to_have_attribute("data-state", "listening")
    yield watched
    context.close()
    assert watched.printed == []


def answered(page: Page, turn: int) -> None:
    expect(page.locator(f"[data-turn='{turn}'] .wait[data-complete='true']")).to_be_attached(timeout=15_000)


def test_a_change_is_shown_with_what_it_cost(watched: Watched) -> None:
    page = watched.page
    speak(page, speech("hello how are you"))
    answered(page, 1)
    expect(page.locator("[data-turn='1'] .you .words")).to_have_text("hello how are you")
    expect(page.locator("[data-turn='1'] .agent .words")).to_have_text("Okay hello how are you.")
    expect(page.locator("[data-turn='1'] [data-name='heard']")).not_to_have_count(0)
    page.get_by_role("group", name="thinking").get_by_role("radio", name="128").check()
    speak(page, speech("what time please"))
    answered(page, 2)
    thought = page.locator("[data-turn='2'] table [data-name='llm.thinking'] td").first
    assert float(thought.text_content() or 0) > 128 * 2  # tokens at 2 ms each
    expect(page.locator("[data-turn='2'] .effect")).to_contain_text("thinking off → 128: +")
    expect(page.locator("[data-turn='2'] .effect")).to_contain_text("LLM +")
    assert page.locator(".effect").count() == 1
    assert recognise(words_in(arrived(page), 1)) == "okay what time please"
    watched.screenshot("tones-phone")


def test_speech_while_the_agent_speaks_interrupts_it(watched: Watched) -> None:
    page = watched.page
    speak(page, speech("story please go on go on go on go on go on go on go on go on"))
    expect(page.locator("body")).to_have_attribute("data-state", "speaking", timeout=15_000)
    page.wait_for_timeout(600)
    speak(page, speech("what time what time"))
    answered(page, 2)
    assert page.locator("[data-turn='1'] .unheard").inner_text().endswith("go on.")
    expect(page.locator("[data-turn='2'] .you .words")).to_have_text("what time what time")
    expect(page.locator("[data-turn='2'] .unheard")).to_have_count(0)


def words_in(sound: np.ndarray, reply: int) -> np.ndarray:
    """One of the replies, which lie apart."""
    loud = np.flatnonzero(np.abs(sound) > 0.05)
    groups = np.split(loud, np.flatnonzero(np.diff(loud) > 8000) + 1)
    return sound[groups[reply][0] : groups[reply][-1]]
