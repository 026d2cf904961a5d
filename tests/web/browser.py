"""Headless Chromium with a WAV as its microphone."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

CHROMIUM = "/usr/lib/chromium/chromium"
FLAGS = (
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--disable-gpu",
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@contextmanager
def driver() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@contextmanager
def chromium(playwright: Playwright, microphone: Path | None = None, flags: Sequence[str] = FLAGS) -> Iterator[Browser]:
    """`microphone`: a WAV of 48 kHz, which plays once when a page opens the microphone; else Chromium beeps."""
    wav = [f"--use-file-for-fake-audio-capture={microphone}%noloop"] if microphone else []
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags, *wav], chromium_sandbox=False)
    try:
        yield browser
    finally:
        browser.close()


KEEP_STATES = """
window.states = [];
new MutationObserver(() => {
  const state = document.body?.dataset.state;
  if (state && state !== states.at(-1)) states.push(state);
}).observe(document, { subtree: true, childList: true, attributeFilter: ["data-state"] });
"""


class Watched:
    """A page, what it printed to its console, what it asked for, and the states that it went through."""

    def __init__(self, context: BrowserContext) -> None:
        context.add_init_script(KEEP_STATES)
        self.page: Page = context.new_page()
        self.printed: list[str] = []
        self.page.on("console", lambda message: self.printed.append(f"{message.type}: {message.text}"))
        self.requested: list[str] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("pageerror", lambda error: self.printed.append(f"error: {error}"))

    def states(self) -> list[str]:
        return self.page.evaluate("states")

    def look(self, name: str) -> None:
        """A screenshot by day and by night, on a phone and on a desktop; nothing may stick out at the side."""
        for scheme in ("light", "dark"):
            for size, viewport in (("phone", PHONE), ("desktop", DESKTOP)):
                self.page.emulate_media(color_scheme=scheme)
                self.page.set_viewport_size(viewport)
                self.screenshot(f"{name}-{scheme}-{size}")
                assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, size)

    def screenshot(self, name: str, full: bool = False) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path, full_page=full, animations="disabled")
        return path


def write_microphone(path: Path, parts: Sequence[NDArray[np.float32]]) -> Path:
    """`parts` at 48 kHz, one after another."""
    soundfile.write(path, np.concatenate(parts), 48_000, subtype="PCM_16")
    return path


def until(true: Callable[[], bool], limit_s: float = 10.0) -> None:
    give_up_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
