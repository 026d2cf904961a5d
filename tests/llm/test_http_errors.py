"""What can go wrong at a server, each in one sentence."""

import errno
import html
import re
import socket
import ssl
from pathlib import Path
from typing import Any, NoReturn

import pytest

from agent.errors import TurnscopeError
from agent.llm.http import HttpLlmEngine
from agent.llm.protocol import Message
from tests.fakes.ticking import TickingClock
from tests.llm.http_server import CUT, HANG, Answer, FastClock, PassingClock, engine, event, page, say, serving, stream

HTML = "<!DOCTYPE html><html><body>Hello</body></html>"
LONG = "the engine's core died " * 40


def reset() -> NoReturn:
    raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def sentence_of(call: Any) -> str:
    with pytest.raises(TurnscopeError) as refusal:
        call()
    sentence = str(refusal.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 500
    return sentence


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://localhost/v1",
        "http://",
        "http://host:port/v1",
        "http://host:0/v1",
        "http://[::1/v1",
        "http://host/v1?key=1",
        "http://host/v 1",
        "http://hôst/v1",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    assert "is not the address of a server" in sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))


@pytest.mark.parametrize(
    "url",
    ["http://me:secret@host/v1", "HTTPS://:secret@host/v1", "http://secret@host:port/v1?key=secret#secret"],
)
def test_an_address_with_a_password(url: str) -> None:
    sentence = sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
    assert "give http" in sentence.lower() and "TURNSCOPE_LLM__API_KEY" in sentence and "secret" not in sentence


@pytest.mark.parametrize("url", ["me:secret@host/v1", "http://me:se/secret@host/v1", "http://host/v1?key=secret"])
def test_an_address_that_is_none_and_may_hold_a_secret(url: str) -> None:
    sentence = sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
    assert "host/v1' is not the address of a server" in sentence and "secret" not in sentence


def test_an_address_in_capitals() -> None:
    with serving(stream(event("Hello"), event(finish="stop"))) as server:
        assert say(HttpLlmEngine(server.url.replace("http", "HTTP"), clock=TickingClock())).text == "Hello"


def test_nothing_listens() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else can listen here
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        sentence = sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
    assert sentence.startswith(f"No connection to {url} (Connection refused): start the server")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "a..b"])
def test_a_host_that_is_not_known(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, *_: Any, **__: Any) -> None:
        host.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    sentence = sentence_of(lambda: HttpLlmEngine(f"http://{host}/v1", clock=TickingClock()))
    assert sentence.startswith(f"No connection to http://{host}/v1 (")


MODELS: dict[str, tuple[Answer, str]] = {
    "key wanted": (
        page({"detail": "Invalid API key"}, 401),
        "wants an API key .Invalid API key.: set TURNSCOPE_LLM__API_KEY",
    ),
    "forbidden": (page("", 403), "wants an API key: set"),
    "wrong path": (
        page({"error": {"message": "File Not Found"}}, 404),
        "/models is not there.*404 .File Not Found.*ends in /v1",
    ),
    "wrong path, in HTML": (page(HTML, 404, "text/html"), "is not there, says the server .404.: correct"),
    "moved, with a password": (
        page("", 307, Location="http://me:secret@elsewhere/v1?key=secret#secret"),
        r"another address: give that one \(http://elsewhere/v1\)",
    ),
    "moved nowhere": (page("", 302), r"give that one \(it does not say it\)"),
    "moved, unprintable": (page("", 302, Location="http://else\x1b[2Jwhere/v1"), "http://else .2Jwhere/v1"),
    "moved": (page("", 307, Location="https://elsewhere/v1"), "another address: give that one .https://elsewhere/v1"),
    "loading": (
        page({"error": {"message": "Loading model", "code": 503}}, 503),
        "is not ready .Loading model.: try again",
    ),
    "broken": (page("boom", 500), "refuses the request .500 .boom..: look at the server's log"),
    "a web page": (
        page(HTML, 200, "text/html"),
        "does not answer like an OpenAI-compatible server .text/html.*ends in /v1",
    ),
    "other JSON": (page([1, 2]), "does not answer like an OpenAI-compatible server"),
    "no models": (page({"data": []}), "serves no model: load one"),
    "several models": (
        page({"data": [{"id": "a"}, {"id": "b"}]}),
        "several models .a, b.: choose one with TURNSCOPE_LLM__SERVER_MODEL",
    ),
    "no answer": (Answer([CUT], before_head=True), "closed the connection before its answer was complete"),
    "silence": (Answer([HANG], before_head=True), "sent nothing for 60 s"),
    "not HTTP": (Answer([b"SSH-2.0-OpenSSH_9.6\r\n"], before_head=True), "does not answer like .*not HTTP"),
    "half a page": (Answer([b'{"data": [', CUT]), "closed the connection before its answer was complete"),
}


@pytest.mark.parametrize("case", MODELS)
def test_no_model_is_found(case: str) -> None:
    answer, wanted = MODELS[case]
    with serving() as server:
        server.models = answer
        sentence = sentence_of(lambda: engine(server, clock=PassingClock(server)))
    assert server.url in sentence and "secret" not in sentence and sentence.isprintable()
    assert re.search(wanted, sentence)


def test_the_named_model_is_not_served() -> None:
    with serving() as server:
        server.models = page({"data": [{"id": f"m{at}"} for at in range(20)]})
        sentence = sentence_of(lambda: engine(server, model="x"))
    assert "does not serve the model 'x'" in sentence and sentence.endswith("m10, m11, ....")


def test_a_wrong_key() -> None:
    with serving() as server:
        server.models = page({"error": {"message": "Invalid API Key", "code": 401}}, 401)
        sentence = sentence_of(lambda: engine(server, api_key="secret"))
        assert "does not accept the API key (Invalid API Key)" in sentence and "secret" not in sentence
        sentence = sentence_of(lambda: engine(server, api_key="sec\nret"))
        assert "characters that no key has" in sentence and "ret" not in sentence.split()


KEY = "sk-Hidden<4711>key"
KEY_QUOTED = {
    "whole": page({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
    "in HTML": page({"detail": f"bad key {html.escape(KEY)}"}, 403),
    "a part": page({"error": {"message": f"Incorrect API key provided: ...{KEY[3:]}"}}, 401),
    "capitals": page({"error": KEY.upper()}, 500),
    "after much else": page({"error": "x " * 95 + KEY}, 500),
    "as text": page(f"no {KEY}", 404, "text/plain"),
    "in an address": page("", 302, Location=f"http://elsewhere/{KEY}/v1"),
    "in the stream": stream({"error": {"message": f"no {KEY}"}}),
    "without a stream": page({"error": {"message": f"no {KEY}"}}),
    "as a type": page("", kind=KEY),
}


@pytest.mark.parametrize("case", KEY_QUOTED)
def test_the_key_is_not_quoted(case: str) -> None:
    with serving(KEY_QUOTED[case]) as server:
        sentence = sentence_of(lambda: say(engine(server, api_key=KEY)))
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert not re.search("hidden|4711", sentence, re.IGNORECASE)


def test_what_a_terminal_would_obey_is_not_quoted() -> None:
    with serving(page(rb'{"error": {"message": "bad \ud800\u001b[2J[bold]x"}}'.decode(), 500)) as server:
        sentence = sentence_of(lambda: say(engine(server)))
    assert "(500 (bad [2J[bold]x))" in sentence and sentence.isprintable()


OVERFLOWS = {
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "llama-server": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
}
REPLIES: dict[str, tuple[Answer, str]] = {
    "key": (page("", 401), "wants an API key"),
    "path": (page({"detail": "Not Found"}, 404), "/v1/chat/completions is not there"),
    **{
        name: (page({"error": {"message": said}}, 400), "does not fit into the context")
        for name, said in OVERFLOWS.items()
    },
    "overflow in the stream": (stream({"error": {"message": OVERFLOWS["vLLM"]}}), "does not fit into the context"),
    "an error in the stream": (
        stream(event("Hello"), {"error": {"message": LONG}}),
        r"failed while it wrote its reply .the engine.*\.\.\.\)",
    ),
    "an error of vLLM, older": (
        stream({"object": "error", "message": "boom"}),
        "failed while it wrote its reply .boom",
    ),
    "an error without a stream": (page({"error": "boom"}), "failed while it wrote its reply .boom"),
    "a web page": (page(HTML, 200, "text/html"), "does not answer like .*text/html in place of an event stream"),
    "no stream": (page({"choices": []}), "application/json in place of an event stream"),
    "no JSON": (stream(b"data: hello\n\n"), "an event that is no JSON object"),
    "cut before": (Answer([CUT]), "closed the connection before its answer"),
    "cut within": (Answer([event("Hello"), CUT]), "ended the connection in the middle of a reply"),
    "cut within an event": (Answer([event("Hello"), b'data: {"choices', CUT]), "ended the connection in the middle"),
    "ended within": (Answer([event("Hello")]), "ended the connection in the middle of a reply"),
    "silent before": (Answer([HANG]), "sent nothing of its reply for 60 s"),
    "silent within": (Answer([event("Hello"), HANG]), "sent nothing of its reply for 60 s"),
}


@pytest.mark.parametrize("case", REPLIES)
def test_a_reply_fails(case: str) -> None:
    answer, wanted = REPLIES[case]
    with serving(answer) as server:
        asked = engine(server, clock=PassingClock(server))
        sentence = sentence_of(lambda: say(asked))
        assert server.url in sentence
        assert re.search(wanted, sentence)
        server.hanging.clear()
        server.answers = [stream(event("Hello"), event(finish="stop"))]
        assert say(asked).text == "Hello"


SECRET = "Please call my doctor about the surgery tomorrow."
QUOTING: dict[str, tuple[Answer, str]] = {
    "FastAPI": (
        page({"detail": [{"loc": ["body", "n"], "msg": "Field required", "input": {"content": SECRET}}]}, 422),
        r"refuses the request \(422 \(body\.n: Field required\)\)",
    ),
    "vLLM": (
        page({"error": {"message": f"[{{'loc': ('body',), 'msg': 'No', 'input': [{SECRET!r}]}}]"}}, 400),
        r"refuses the request \(400 \(\[\{'loc': \('body',\), 'msg': 'No'\)\)",
    ),
    "text": (page(f"cannot parse {SECRET[:30]}", 500), r"refuses the request \(500\)"),
    "JSON of another form": (page({"request": {"content": SECRET}}, 500), r"refuses the request \(500\)"),
    "not found": (page({"detail": f"no {SECRET}"}, 404), r"says the server \(404\)"),
    "loading": (page({"error": f"busy with {SECRET}"}, 503), "is not ready: try again"),
    "overflow": (
        page({"error": {"message": f"context length exceeded by {SECRET}"}}, 400),
        r"does not fit into the context of the model at \S+/v1: shorten",
    ),
    "in the stream": (stream({"error": {"message": f"failed at {SECRET}"}}), "while it wrote its reply: look"),
    "without a stream": (page({"error": f"failed at {SECRET}"}), "while it wrote its reply: look"),
    "a list": (page({"detail": [SECRET, {"input": SECRET}]}, 400), r"refuses the request \(400\)"),
}


@pytest.mark.parametrize("case", QUOTING)
def test_what_was_said_is_not_quoted(case: str) -> None:
    """The sentence is traced, and content is private."""
    answer, wanted = QUOTING[case]
    with serving(answer) as server:
        sentence = sentence_of(lambda: say(engine(server), [Message("user", SECRET)]))
    assert re.search(wanted, sentence)
    assert not any(word in sentence for word in ("doctor", "surgery", "Please call"))


def test_a_genuine_overflow_is_known_whatever_was_said() -> None:
    about = [Message("user", "What is the maximum context length of this model?")]
    with serving(page({"error": {"message": OVERFLOWS["vLLM"]}}, 400)) as server:
        assert "does not fit into the context" in sentence_of(lambda: say(engine(server), about))
        coded = {"error": {"message": "Too long.", "code": "context_length_exceeded"}}
        server.answers = [page(coded, 400)]
        assert "does not fit into the context" in sentence_of(lambda: say(engine(server), about))


def test_a_server_that_says_why_only_without_a_stream() -> None:
    why = page({"error": {"message": OVERFLOWS["vLLM"], "code": "context_length_exceeded"}}, 400)
    with serving(Answer([CUT]), why) as server:
        assert "does not fit into the context" in sentence_of(lambda: say(engine(server)))
    assert server.asked[1]["stream"] is False and "stream_options" not in server.asked[1]


def test_a_server_that_does_not_say_why() -> None:
    with serving(Answer([CUT]), page({"choices": []})) as server:
        assert "ended the connection before its reply began" in sentence_of(lambda: say(engine(server)))


def test_pings_are_no_answer() -> None:
    with serving(Answer([b": ping\n\n", HANG])) as server:
        assert "sent nothing of its reply for" in sentence_of(lambda: say(engine(server, clock=PassingClock(server))))


def test_tls_that_is_none_or_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving() as server:
        url = server.url.replace("http://", "https://")
        assert "does not speak TLS" in sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
    with socket.create_server(("127.0.0.1", 0)) as waiting:  # for the rest of a request that is none
        url = f"https://127.0.0.1:{waiting.getsockname()[1]}/v1"
        sentence = sentence_of(lambda: HttpLlmEngine(url, clock=FastClock()))
        assert "does not speak TLS (no handshake within 5 s): try http:// instead" in sentence
        with monkeypatch.context() as patch:
            patch.setattr(ssl.SSLSocket, "do_handshake", lambda _: reset())
            sentence = sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
        assert "does not speak TLS (Connection reset by peer): try http:// instead" in sentence
    with serving(tls=True) as server:
        assert "certificate of" in sentence_of(lambda: engine(server))
        url = server.url.replace("https://", "http://")
        assert url in sentence_of(lambda: HttpLlmEngine(url, clock=TickingClock()))
