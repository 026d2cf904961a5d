"""The page in headless Chromium, over real WebRTC, with a server that says what the test tells it to."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from playwright.sync_api import Browser, expect

from agent.web.messages import Audible, Notice, Refusal, Said, Says, State, Transcript
from tests.fakes.web_server import FakeServer
from tests.web.browser import DESKTOP, Watched, until
from tests.web.shown import greeting, toggle_states, turn_shown, words

NO_CANDIDATES = """
const real = Object.getOwnPropertyDescriptor(RTCPeerConnection.prototype, "localDescription").get;
Object.defineProperty(RTCPeerConnection.prototype, "localDescription", { get() {
  return { type: "offer", sdp: real.call(this).sdp.replace(/^a=candidate:.*\\r\\n/gm, "") };
} });
Object.defineProperty(RTCPeerConnection.prototype, "iceGatheringState", { get() {
  window.gathering = true;
  return "gathering";
} });
null;
"""
KEEP_MICROPHONES = """
window.microphones = [];
const open = MediaDevices.prototype.getUserMedia;
MediaDevices.prototype.getUserMedia = async function (asked) {
  await window.allowed;
  const stream = await open.call(this, asked);
  microphones.push(...stream.getAudioTracks());
  return stream;
};
null;
"""
REFUSED_BY_THE_BROWSER = "Failed to load resource: the server responded with a status of"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(greeting()) as server:
        yield server


@pytest.fixture
def watched(browser: Browser, server: FakeServer) -> Iterator[Watched]:
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
    watched = Watched(context)
    watched.page.goto(server.address)
    yield watched
    printed = [line for line in watched.printed if REFUSED_BY_THE_BROWSER not in line]
    context.close()
    assert printed == []


def in_state(watched: Watched, state: str) -> None:
    expect(watched.page.locator("body")).to_have_attribute("data-state", state, timeout=10_000)


def start(watched: Watched) -> None:
    watched.page.get_by_role("button", name="Start talking").click()
    in_state(watched, "listening")


def test_a_turn_goes_from_listening_to_hearing_to_thinking_to_speaking_and_back(
    server: FakeServer, watched: Watched
) -> None:
    page = watched.page
    expect(page.locator("#state")).to_have_text("Ready when you are")
    watched.look("idle")
    start(watched)
    assert server.callers[0].session is None
    server.say(Transcript(1, "what is the", False))
    in_state(watched, "hearing")
    expect(page.locator(".said.you .words")).to_have_text("what is the")
    server.say(Transcript(1, "What is the time?", True))
    in_state(watched, "thinking")
    expect(page.locator(".said.you .words")).to_have_text("What is the time?")
    server.say(Says(1, "It is three."), Audible(1, time.monotonic() * 1000), Says(1, " Or four."))
    in_state(watched, "speaking")
    expect(page.locator(".said.agent .words")).to_have_text("It is three. Or four.")
    server.say(turn_shown(1, heard_text="It is three. Or four."))
    in_state(watched, "listening")
    assert page.locator(".unheard").count() == 0
    assert page.get_by_role("link", name="Report of this run").get_attribute("href") == "/report/run"


def test_words_that_were_interrupted_are_shown_as_not_heard(server: FakeServer, watched: Watched) -> None:
    start(watched)
    server.say(*words(1, "Tell me a story", ["Once upon a time", " there was a fox."]))
    server.say(Audible(1, time.monotonic() * 1000), Transcript(2, "stop", False))
    in_state(watched, "hearing")
    server.say(turn_shown(1, ended="interrupted", heard_text="Once upon a time there"))
    expect(watched.page.locator("[data-turn='1'] .unheard")).to_have_text("was a fox.")
    expect(watched.page.locator("[data-turn='1'] .agent")).to_contain_text(
        "Once upon a time there was a fox. not heard"
    )
    in_state(watched, "hearing")


@pytest.mark.parametrize("timestamps", [True, False], ids=["with-timestamps", "without"])
def test_the_moment_at_which_a_reply_is_heard_goes_to_the_server_with_the_clocks_offset(
    server: FakeServer, watched: Watched, timestamps: bool
) -> None:
    if not timestamps:
        watched.page.evaluate("delete AudioContext.prototype.getOutputTimestamp")
    start(watched)
    watched.page.wait_for_timeout(400)  # of silence, and of pings
    server.say(*words(1, "hello", ["Hello."]))
    watched.page.wait_for_timeout(400)  # as a reply takes: meanwhile the browser counts its delays
    left_s = server.beep(0.3)
    server.say(Audible(1, left_s * 1000))
    until(lambda: any(message["type"] == "heard" for message in server.callers[0].received))
    (heard,) = [message for message in server.callers[0].received if message["type"] == "heard"]
    after_ms = heard["page_ms"] + heard["offset_ms"] - left_s * 1000
    assert (heard["turn"], heard["estimated"]) == (1, not timestamps)
    assert heard["error_ms"] > 0
    assert heard["output_ms"] < after_ms < 2000  # it left before it was heard, and the device's share lies between
    assert heard["jitter_buffer_ms"] >= 0


def test_a_toggle_asks_the_server_and_shows_what_it_answers(server: FakeServer, watched: Watched) -> None:
    start(watched)
    page = watched.page
    page.get_by_role("group", name="thinking").get_by_role("radio", name="32").check()
    until(lambda: {"type": "toggle", "name": "thinking", "value": "32"} in server.callers[0].received)
    server.say(toggle_states("32"))
    chosen = page.get_by_role("group", name="thinking").get_by_role("radio", name="32")
    expect(chosen).to_be_checked()
    expect(chosen).to_be_focused()
    page.get_by_role("radio", name="640").check()
    until(lambda: server.callers[0].received[-1] == {"type": "toggle", "name": "chunk", "value": "640"})
    server.say(Notice("Others are in a call."), toggle_states("32"))
    expect(page.get_by_role("radio", name="320")).to_be_checked()
    expect(page.locator("#toggle-problem")).to_have_text("Others are in a call.")


def test_what_goes_wrong_in_a_turn_is_said_in_the_conversation(server: FakeServer, watched: Watched) -> None:
    start(watched)
    server.say(*words(1, "hello", []), Notice("An engine failed, and the turn has ended; the next one can go on."))
    expect(watched.page.locator("#turns .note")).to_contain_text("the next one can go on")
    expect(watched.page.locator("#toggle-problem")).to_be_empty()


def test_what_cannot_be_chosen_is_disabled_and_says_why(server: FakeServer, watched: Watched) -> None:
    start(watched)
    server.say(toggle_states(shared=True))
    page = watched.page
    chunk = page.get_by_role("group", name="chunk (ms)")
    why = "Two people are in a call and share this model; it can be changed when one of them has hung up."
    expect(chunk).to_have_accessible_description(why)
    expect(chunk.get_by_text(why)).to_be_visible()
    assert [radio.is_disabled() for radio in chunk.get_by_role("radio").all()] == [True] * 3
    voxcpm = page.get_by_role("radio", name="voxcpm")
    expect(voxcpm).to_be_disabled()
    expect(voxcpm).to_have_accessible_description("voxcpm: its model is not on this machine.")
    expect(page.get_by_role("radio", name="piper")).to_be_enabled()
    expect(page.get_by_role("group", name="diffusion steps")).to_contain_text("Piper has no diffusion steps.")


@pytest.mark.parametrize("lose", [FakeServer.drop, FakeServer.fall_silent], ids=["closed", "silent"])
def test_a_lost_connection_is_made_again_and_the_conversation_goes_on(
    server: FakeServer, watched: Watched, lose: Callable[[FakeServer], None]
) -> None:
    start(watched)
    server.say(*words(1, "hello", ["Hello."]), turn_shown(1, heard_text="Hello."))
    server.greeting = greeting(said=[Said("user", "hello"), Said("agent", "Hello.")])
    lose(server)
    until(lambda: len(server.callers) == 2)
    in_state(watched, "listening")
    assert watched.states()[-2:] == ["reconnecting", "listening"]
    assert [caller.session for caller in server.callers] == [None, "a-session"]
    server.say(*words(2, "and then", ["Then I went on."]), turn_shown(2, heard_text="Then I went on."))
    expect(watched.page.locator(".said.agent .words")).to_have_text(["Hello.", "Then I went on."])
    expect(watched.page.locator(".said.you .words")).to_have_text(["hello", "and then"])


def test_a_page_that_goes_says_so_and_one_that_comes_again_knows_the_conversation(
    server: FakeServer, watched: Watched
) -> None:
    start(watched)
    server.greeting = greeting(said=[Said("user", "hello"), Said("agent", "Hello.")])
    watched.page.reload()
    until(lambda: server.byes == ["a-session"])
    start(watched)
    assert server.callers[1].session == "a-session"
    expect(watched.page.locator(".said.agent .words")).to_have_text("Hello.")


def test_after_hanging_up_the_next_call_is_another_conversation(server: FakeServer, watched: Watched) -> None:
    start(watched)
    server.say(*words(1, "hello", ["Hello."]))
    expect(watched.page.locator(".said")).to_have_count(2)
    watched.page.get_by_role("button", name="Hang up").click()
    in_state(watched, "ended")
    until(lambda: server.byes == ["a-session"])
    expect(watched.page.locator(".said")).to_have_count(2)
    server.greeting = greeting("another-session")
    start(watched)
    assert server.callers[1].session is None
    expect(watched.page.locator(".said")).to_have_count(0)


def test_a_full_server_is_a_polite_sentence(server: FakeServer, watched: Watched) -> None:
    server.refuse(Refusal("All 3 lines are in use; try again in a few minutes.", full=True))
    watched.page.get_by_role("button", name="Start talking").click()
    in_state(watched, "refused")
    expect(watched.page.locator("#state")).to_have_text("All lines are taken")
    expect(watched.page.locator("#advice")).to_have_text("All 3 lines are in use; try again in a few minutes.")
    watched.look("refused")
    server.refuse(None)
    start(watched)


def test_a_call_that_the_server_ends_says_why(server: FakeServer, watched: Watched) -> None:
    start(watched)
    server.say(State("ended", "The server is shutting down.", 0, 3))
    in_state(watched, "ended")
    expect(watched.page.locator("#advice")).to_have_text("The server is shutting down.")
    expect(watched.page.get_by_role("button", name="Start talking")).to_be_focused()


def test_without_a_microphone_the_page_says_what_to_do(server: FakeServer, watched: Watched) -> None:
    for error, sentence in (
        ("NotAllowedError", "Allow it for this page"),
        ("NotFoundError", "Plug one in"),
        ("NotReadableError", "close that"),
    ):
        refuse = f"MediaDevices.prototype.getUserMedia = () => Promise.reject(new DOMException('', '{error}')); null"
        watched.page.evaluate(refuse)
        watched.page.get_by_role("button", name="Start talking").click()
        expect(watched.page.locator("#advice")).to_contain_text(sentence)
        in_state(watched, "failed")
    watched.look("error")
    assert server.callers == []


def test_a_microphone_that_is_unplugged_ends_the_call_and_a_later_one_goes_on(
    server: FakeServer, watched: Watched
) -> None:
    watched.page.evaluate(KEEP_MICROPHONES)
    start(watched)
    watched.page.evaluate("microphones[0].dispatchEvent(new Event('ended'))")
    in_state(watched, "failed")
    expect(watched.page.locator("#state")).to_have_text("The microphone has gone")
    start(watched)
    assert server.callers[1].session == "a-session"


def test_hanging_up_while_the_browser_still_asks_leaves_no_microphone_open(
    server: FakeServer, watched: Watched
) -> None:
    watched.page.evaluate(KEEP_MICROPHONES)
    watched.page.evaluate("void (window.allowed = new Promise((resolve) => (window.allow = resolve)))")
    watched.page.get_by_role("button", name="Start talking").click()
    watched.page.get_by_role("button", name="Hang up").click()
    watched.page.evaluate("allow()")
    until(lambda: watched.page.evaluate("microphones[0]?.readyState") == "ended")
    assert server.callers == []


def test_gathering_ends_after_2_s_and_without_an_address_the_page_says_so(server: FakeServer, watched: Watched) -> None:
    watched.page.clock.install(time=datetime(2026, 1, 1, 8))
    watched.page.clock.pause_at(datetime(2026, 1, 1, 9))  # from here on time passes only as the test says
    watched.page.evaluate(NO_CANDIDATES)
    watched.page.get_by_role("button", name="Start talking").click()
    until(lambda: watched.page.evaluate("window.gathering === true"))
    watched.page.clock.fast_forward(1900)
    in_state(watched, "connecting")
    watched.page.clock.fast_forward(100)
    in_state(watched, "failed")
    expect(watched.page.locator("#state")).to_have_text("No network address")
    assert server.callers == []


def test_connecting_ends_after_8_s_when_no_sound_gets_through(server: FakeServer, watched: Watched) -> None:
    server.unreachable = True
    watched.page.clock.install()
    watched.page.get_by_role("button", name="Start talking").click()
    until(lambda: len(server.callers) == 1)
    in_state(watched, "connecting")
    for _ in range(10):
        watched.page.clock.fast_forward(1000)
    in_state(watched, "failed")
    expect(watched.page.locator("#advice")).to_contain_text("firewall")


def test_a_server_that_has_gone_is_looked_for_and_then_given_up(browser: Browser) -> None:
    context = browser.new_context()
    watched = Watched(context)
    watched.page.clock.install()
    with FakeServer(greeting()) as server:
        watched.page.goto(server.address)
        watched.page.get_by_role("button", name="Start talking").click()
        in_state(watched, "listening")
    in_state(watched, "reconnecting")
    for _ in range(20):
        watched.page.clock.fast_forward(8000)
        watched.page.wait_for_timeout(20)
    in_state(watched, "failed")
    expect(watched.page.locator("#state")).to_have_text("The server does not answer")
    context.close()
    assert all("ERR_CONNECTION_REFUSED" in line for line in watched.printed)
