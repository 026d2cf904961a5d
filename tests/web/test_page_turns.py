"""How the page draws a turn: its bars and figures are the turn's, on a phone as on a desktop, by day and by night."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from agent.web.messages import Transcript, TurnShown
from tests.fakes.web_server import FakeServer
from tests.web.browser import DESKTOP, PHONE, Watched
from tests.web.shown import PARTS_S, VOICE_S, greeting, toggle_states, turn_shown, words

LOOKS = [(scheme, size) for scheme in ("light", "dark") for size in ("desktop", "phone")]
READABLE = 4.5  # contrast of text, WCAG 2.2 AA
CONTRAST = """() => {
  const rgb = (text) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const lightness = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest(".unseen, .who")) continue;
    const [a, b] = [rgb(getComputedStyle(node).color), behind(node)].map(lightness).sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), node.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
    yield context
    context.close()


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer(greeting()) as server:
        yield server


@pytest.fixture(scope="module")
def watched(context: BrowserContext, server: FakeServer) -> Watched:
    """A page in a call after three turns, of which the second was interrupted and thought."""
    watched = Watched(context)
    watched.page.goto(server.address)
    watched.page.get_by_role("button", name="Start talking").click()
    expect(watched.page.locator("body")).to_have_attribute("data-state", "listening")
    italy = ["The capital of Italy is Rome.", " It was founded, they say, by two brothers whom a wolf had raised."]
    server.say(*words(1, "What is the capital of France?", ["The capital of France is Paris."]), FIRST)
    server.say(toggle_states("32", shared=True), *words(2, "And of Italy?", italy), SECOND)
    server.say(*words(3, "Thank you. And of Japan?", ["The capital of Japan is Tokyo."]), THIRD)
    expect(watched.page.locator("[data-turn='3'] [data-name='heard']")).to_have_count(2)
    return watched


FIRST = turn_shown(1, heard_s=0.0834, heard_text="The capital of France is Paris.")
SECOND = turn_shown(
    2,
    thinking_s=0.41,
    before_s=0.0,
    heard_s=0.0851,
    ended="interrupted",
    heard_text="The capital of Italy is Rome. It was founded,",
)
THIRD = turn_shown(3, thinking_s=0.405, before_s=0.41, heard_s=0.081, heard_text="The capital of Japan is Tokyo.")


def numbers(page: Page, turn: int) -> dict[str, list[str]]:
    """The table: cells by row."""
    rows = page.locator(f"[data-turn='{turn}'] table tr[data-name]")
    return dict(rows.evaluate_all("all => all.map(row => [row.dataset.name, [...row.cells].map(c => c.textContent)])"))


def test_the_figures_are_the_turns_and_those_of_the_path_sum_to_the_latency(watched: Watched) -> None:
    table = numbers(watched.page, 1)
    for name, part_s in {**PARTS_S, "tts.first_patch": VOICE_S, "host": 0.0036}.items():
        assert table[name][1] == f"{part_s * 1000:.1f}"
    parts = [float(cells[1]) for name, cells in table.items() if cells[1] and name not in ("latency", "heard")]
    assert sum(parts) == pytest.approx(float(table["latency"][1]))
    assert table["latency"][1] == "603.6"
    assert table["heard"][:2] == ["heard here, ± 0.6 (jitter buffer 32 ms, output 30 ms)", "687.0"]
    assert table["endpoint.vad"][1:] == ["", "40.0"]
    assert table["llm.decode"][1:] == ["", "170.0"]  # up to the first sound
    assert "asr.partial" in table


def test_the_bars_lie_where_the_turns_rows_lie(watched: Watched) -> None:
    bars = watched.page.locator("[data-turn='3'] .row[data-name] .bar").evaluate_all(
        """all => all.map(bar => {
          const [box, track] = [bar, bar.parentElement].map(node => node.getBoundingClientRect());
          return [bar.closest(".row").dataset.name, bar.dataset.shows,
            (box.left - track.left) / track.width, (box.right - track.left) / track.width];
        })"""
    )
    by_name = {name: (shows, left, right) for name, shows, left, right in bars}
    rows = {row.name: row for row in THIRD.rows}
    zero, wait = by_name["endpoint.wait"][1], rows["endpoint.wait"]
    per_s = (by_name["endpoint.wait"][2] - zero) / (wait.end_s - wait.start_s)
    for name, row in rows.items():
        if name in by_name and row.start_s >= 0 and row.end_s <= THIRD.latency_s + 0.1:
            assert by_name[name][1:] == pytest.approx(
                (zero + row.start_s * per_s, zero + row.end_s * per_s), abs=0.006
            ), name
    assert {name: shows for name, (shows, *_) in by_name.items()} == {
        "endpoint.wait": "wait",
        "endpoint.vad": "hidden",
        "asr.finalize": "work",
        "llm.prefill": "work",
        "llm.thinking": "work",
        "llm.first_phrase": "work",
        "tts.first_patch": "work",
        "playout.leading_silence": "wait",
        "host": "work",
        "llm.decode": "hidden",
        "heard": "heard",
    }


def test_a_step_is_hidden_before_the_end_of_speech_and_once_the_next_has_taken_over(
    server: FakeServer, watched: Watched
) -> None:
    shown = watched.page.evaluate(
        """async () => {
          const { lines } = await import("/static/waterfall.js");
          const row = { name: "asr.finalize", label: "", kind: "work", start_s: -0.1, end_s: 0.3, on_path_s: 0.2 };
          return lines({ latency_s: 1, rows: [row] })[0];
        }"""
    )
    spans = [(bar["shows"], bar["start_s"], bar["end_s"]) for bar in shown["bars"]]
    assert spans == [("hidden", -0.1, 0), ("work", 0, 0.2), ("hidden", 0.2, 0.3)]
    assert shown["hidden_s"] == pytest.approx(0.2)


def test_each_turn_says_its_wait_in_one_line_and_what_a_change_cost(watched: Watched) -> None:
    lines = watched.page.locator(".line")
    expect(lines).to_have_text([f"You waited {turn.breakdown}" for turn in (FIRST, SECOND, THIRD)])
    assert lines.locator("strong").all_inner_texts() == ["604 ms", "1014 ms", "1009 ms"]
    effects = watched.page.locator(".effect")
    expect(effects).to_have_text(["thinking off → 32: +410 ms (LLM +410)"])


def test_only_the_newest_waterfall_is_open_and_earlier_ones_are_strips_of_comparable_length(watched: Watched) -> None:
    page = watched.page
    assert page.locator(".detail").evaluate_all("all => all.map(each => each.open)") == [False, False, True]
    widths = page.locator(".strip").evaluate_all("all => all.map(each => each.getBoundingClientRect().width)")
    assert widths[0] / widths[1] == pytest.approx(FIRST.latency_s / SECOND.latency_s, abs=0.01)
    page.locator("[data-turn='1'] .detail > summary").press("Enter")
    expect(page.locator("[data-turn='1'] .chart")).to_be_visible()
    page.locator("[data-turn='1'] .detail > summary").press("Enter")


def test_a_turn_is_drawn_at_its_first_audio_and_completed_in_place(context: BrowserContext, server: FakeServer) -> None:
    watched = Watched(context)
    page = watched.page
    page.goto(server.address)
    page.get_by_role("button", name="Start talking").click()
    expect(page.locator("body")).to_have_attribute("data-state", "listening")
    server.say(*words(1, "hello", ["Hello."]), turn_shown(1, complete=False, ended=""))
    expect(page.locator(".wait[data-complete='false'] .chart")).to_be_visible()
    page.get_by_text("In numbers").click()
    server.say(turn_shown(1, heard_s=0.08, heard_text="Hello."))
    expect(page.locator(".wait[data-complete='true'] .chart")).to_have_count(1)
    expect(page.get_by_role("table")).to_be_visible()  # what was opened stays open
    server.say(without_latency())
    expect(page.locator("[data-turn='2'] .line")).to_have_text("No latency: speech was heard, but no words.")
    page.close()
    assert watched.printed == []


def without_latency() -> TurnShown:
    why = "No latency: speech was heard, but no words."
    return TurnShown(2, True, None, "no words", why, [], [], {}, [], "", "/report/run")


def test_a_screen_reader_is_told_the_wait_and_finds_every_control(watched: Watched) -> None:
    expect(watched.page.locator("#announcement")).to_have_text(re.compile("You waited 1009 ms"))
    tree = watched.page.locator("body").aria_snapshot()
    for found in (
        'button "Hang up"',
        'link "Report of this run"',
        'group "thinking"',
        'radio "32" [checked]',
        'heading "From the next turn on"',
        'region "Conversation"',
        "You: ",
        "Turnscope: ",
    ):
        assert found in tree, tree
    unnamed = watched.page.locator("button, a[href], input, summary").evaluate_all(
        "all => all.filter(each => each.checkVisibility() && !(each.textContent || each.labels?.[0]?.textContent))"
    )
    assert unnamed == []


def test_everything_can_be_reached_by_keyboard(watched: Watched) -> None:
    page, reached = watched.page, []
    page.locator("#report").focus()
    for _ in range(12):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    assert {"report", "Where the time went", "In numbers", "choice-thinking-2", "choice-voice-0", "hang-up"} <= set(
        reached
    )


@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_it_is_readable_and_fits(watched: Watched, scheme: str, size: str) -> None:
    page = watched.page
    page.set_viewport_size(PHONE if size == "phone" else DESKTOP)
    page.emulate_media(color_scheme=scheme)
    numbers = page.locator("[data-turn='3'] .numbers")
    numbers.evaluate("each => each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    poor = [(ratio, text) for ratio, text in page.evaluate(CONTRAST) if ratio < READABLE]
    assert poor == []
    assert len(page.evaluate(CONTRAST)) > 40
    numbers.evaluate("each => each.open = false")
    page.locator("[data-turn='3']").evaluate("turn => turn.scrollIntoView({ block: 'end' })")
    watched.screenshot(f"three-turns-{scheme}-{size}")
    page.set_viewport_size(DESKTOP)


def test_nothing_moves_for_those_who_asked_for_less_motion(watched: Watched, server: FakeServer) -> None:
    server.say(Transcript(4, "hello", True), caller=0)
    expect(watched.page.locator("body")).to_have_attribute("data-state", "thinking")
    moving = "document.getAnimations().filter(each => each.playState === 'running').length"
    assert watched.page.evaluate(moving) == 0
    watched.page.emulate_media(reduced_motion="no-preference")
    assert watched.page.evaluate(moving) > 0
    watched.page.emulate_media(reduced_motion="reduce")


def test_it_printed_nothing_and_asked_for_nothing_from_elsewhere(server: FakeServer, watched: Watched) -> None:
    assert watched.printed == []
    assert len(watched.requested) > 10
    assert [url for url in watched.requested if not url.startswith(server.address)] == []
