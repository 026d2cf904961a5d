"""What must not be let through, and does no harm to a call that goes on meanwhile."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from agent.errors import TurnscopeError
from agent.web.guard import OFFERS_PER_CALLER, PER_S, Guard, OfferRate, check_address, check_offer
from agent.web.messages import MAX_MESSAGE_BYTES, Refused, parse, parse_bye, parse_offer
from agent.web.server import CONNECTION_S, MAX_CONNECTIONS
from tests.web.pages import Microphone, Page, open_house, post, run, until


async def good_offer() -> str:
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    pc.addTrack(Microphone())
    pc.createDataChannel("turnscope")
    await pc.setLocalDescription(await pc.createOffer())
    sdp = pc.localDescription.sdp
    await pc.close()
    return sdp


def without(line: str) -> Callable[[str], str]:
    return lambda sdp: "\r\n".join(one for one in sdp.split("\r\n") if not one.startswith(line))


CANDIDATE = "a=candidate:1 1 udp 2130706431 192.0.2.1 9 typ host\r\n"
MALFORMED: dict[str, Callable[[str], str]] = {
    "empty": lambda _: " ",
    "garbage": lambda _: "hello",
    "no media": lambda sdp: sdp.partition("m=")[0],
    "truncated": lambda sdp: sdp[: len(sdp) // 3],
    "video": lambda sdp: sdp.replace("m=audio", "m=video"),
    "two microphones": lambda sdp: sdp + "m=audio" + sdp.partition("m=audio")[2],
    "many lines": lambda sdp: sdp + "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n" * 200,
    "no ICE": without("a=ice-"),
    "no fingerprint": without("a=fingerprint"),
    "an old fingerprint": lambda sdp: sdp.replace("sha-256", "sha-1").replace("sha-384", "x").replace("sha-512", "x"),
    "no Opus": lambda sdp: sdp.replace("opus", "speex"),
    "NUL in a name": lambda sdp: sdp.replace("a=ice-ufrag:", "a=ice-ufrag:\0"),
    "bad candidate": lambda sdp: sdp + "a=candidate:nonsense\r\n",
    "too many candidates": lambda sdp: sdp + CANDIDATE * 33,
    "no port": lambda sdp: sdp.replace("m=audio ", "m=audio x"),
}


def test_malformed_offers_are_refused_while_a_call_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        sdp = await good_offer()
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            page.microphone.say("hello how are you")
            for number, (name, spoil) in enumerate(MALFORMED.items()):
                house.allow_offers()
                status, answer = await post(house.url, "offer", {"sdp": spoil(sdp)})
                assert (name, status) == (name, 400)
                assert answer["error"].endswith("."), number
            assert len(house.runs) == 1
            await page.told("turn", complete=True)
            assert page.of("transcript", final=True)[0]["text"] == "hello how are you"
            assert page.of("state")[-1]["callers"] == 1
            await page.close()
        assert house.notes == []

    run(main())


def test_an_offer_whose_page_never_comes_frees_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.web.line.CONNECT_S", 0.3)

    async def main() -> None:
        sdp = await good_offer()
        async with open_house(tmp_path, limit=1) as house:
            assert (await post(house.url, "offer", {"sdp": sdp}))[0] == 200
            status, answer = await post(house.url, "offer", {"sdp": sdp})
            assert (status, answer["full"]) == (503, True)
            await asyncio.sleep(0.5)
            page = await Page(house.url).call()
            await page.close()
            assert len(house.runs) == 1

    run(main())


def test_bodies_and_headers_are_judged_first(tmp_path: Path) -> None:
    async def main() -> None:
        body = {"sdp": "x"}
        async with open_house(tmp_path) as house:
            for expected, sent, headers in (
                (413, b"{" + b" " * 70_000 + b"}", {}),
                (400, b"\xff\xfe", {}),
                (400, b"[" * 60_000, {}),
                (400, b"{}", {}),
                (400, json.dumps({"sdp": "x", "session": 5}).encode(), {}),
                (415, body, {"Content_Type": "text/plain"}),
                (403, body, {"Origin": "https://elsewhere.example"}),
                (403, body, {"Origin": "null"}),
                (403, body, {"Origin": ""}),
                (403, body, {"Sec_Fetch_Site": "cross-site"}),
                (403, body, {"Host": "elsewhere.example"}),
                (403, body, {"Host": "elsewhere.example", "Origin": "http://elsewhere.example"}),
            ):
                status, answer = await post(house.url, "offer", sent, **headers)
                assert (status, headers) == (expected, headers)
                assert answer["error"]
            assert (await post(house.url, "bye", b"nonsense"))[0] == 204
            async with aiohttp.ClientSession() as session, session.get(house.url + "static/..%2fserver.py") as answer:
                assert answer.status == 404
        assert house.notes == []

    run(main())


def test_a_token_is_asked_for_and_never_shown_again(tmp_path: Path) -> None:
    token = "correct-horse-battery"

    async def main() -> None:
        async with (
            open_house(tmp_path, token=token) as house,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
        ):
            for query in ("", "?token=", "?token=correct-horse-batterx", "?token=%C3%A9"):
                async with session.get(house.url + query) as answer:
                    assert answer.status == 401
            assert (await post(house.url, "offer", {"sdp": "x"}))[0] == 401
            async with session.get(house.url + "?token=" + token, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/")
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
                assert token not in cookie
            async with session.get(house.url) as answer:
                assert answer.status == 200
                assert "default-src 'self'" in answer.headers["Content-Security-Policy"]

    run(main())


def test_offers_come_at_a_bounded_rate() -> None:
    rate = OfferRate()
    assert [rate.allows("a", 0.1 * n) for n in range(OFFERS_PER_CALLER + 2)] == [True] * OFFERS_PER_CALLER + [False] * 2
    assert rate.allows("b", 1.0)
    assert rate.allows("a", PER_S + 0.01)
    assert not all(rate.allows(f"other {n}", 2.0) for n in range(100))


def test_too_many_offers_are_told_to_wait(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            answers = [await post(house.url, "offer", {"sdp": "x"}) for _ in range(OFFERS_PER_CALLER + 1)]
            assert [status for status, _ in answers] == [400] * OFFERS_PER_CALLER + [429]

    run(main())


def test_slow_and_idle_connections_are_ended_and_others_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.web.server.CONNECTION_S", 0.5)
    assert CONNECTION_S <= 30

    async def main() -> None:
        async with open_house(tmp_path) as house:
            host, port = house.url.removeprefix("http://").rstrip("/").split(":")
            slow = [await asyncio.open_connection(host, int(port)) for _ in range(MAX_CONNECTIONS + 5)]
            slow[0][1].write(b"POST /offer HTTP/1.1\r\nHost: ")
            start_s = time.monotonic()
            for reader, writer in slow:
                with suppress(ConnectionError):
                    assert await reader.read(1) == b""
                writer.close()
            assert time.monotonic() - start_s < 2
            assert (await post(house.url, "bye", {"session": "x"}))[0] == 204

    run(main())


def test_what_a_page_sends_is_read_or_passed_over(tmp_path: Path) -> None:
    for nonsense in (
        "",
        "{",
        "[]",
        "null",
        '"ping"',
        b"\xff",
        "[" * 100_000,
        '{"type": 5}',
        '{"type": "ping"}',
        '{"type": "ping", "id": -1}',
        '{"type": "ping", "id": 1.5}',
        '{"type": "ping", "id": true}',
        '{"type": "ping", "id": NaN}',
        '{"type": "ping", "id": ' + "9" * 400 + "}",
        '{"type": "toggle", "name": "", "value": "1"}',
        '{"type": "toggle", "name": "chunk", "value": 1}',
        '{"type": "heard", "turn": 1, "page_ms": 1e400, "offset_ms": 0, "error_ms": 0}',
        '{"type": "heard", "turn": 1, "page_ms": 1, "offset_ms": 0, "error_ms": -1}',
        '{"type": "toggle", "name": "chunk", "value": "' + "1" * MAX_MESSAGE_BYTES + '"}',
    ):
        with pytest.raises(Refused):
            parse(nonsense)
    assert parse('{"type": "from a later version"}') is None
    assert parse_bye(b"x") is None
    with pytest.raises(Refused):
        parse_offer(b'{"sdp": 1}')

    async def main() -> None:
        async with open_house(tmp_path) as house:
            page = await Page(house.url).call()
            for data in ("{", b"\xff", "[" * 3000, '{"type": "heard", "turn": 99, "page_ms": 1, "offset_ms": 1}'):
                page.channel.send(data)
            page.send(type="ping", id=4711)
            await page.told("pong", id=4711)
            page.send(type="bye")
            await until(lambda: house.runs[0].complete is True, 2)
            await page.close()
        assert house.notes == []

    run(main())


def test_only_this_machine_is_served_without_a_token_and_a_certificate(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.1.2.3"):
        check_address(host, None, None, None)
    pem = tmp_path / "x.pem"
    check_address("0.0.0.0", "correct-horse-battery", pem, pem)
    for host, token, certificate, key in (
        ("0.0.0.0", None, None, None),
        ("192.0.2.7", "correct-horse-battery", None, None),
        ("agent.example", None, pem, pem),
        ("127.0.0.1", "short", None, None),
        ("127.0.0.1", None, pem, None),
    ):
        with pytest.raises(TurnscopeError):
            check_address(host, token, certificate, key)


def test_a_name_that_leads_here_from_elsewhere_is_not_ours() -> None:
    guard = Guard("127.0.0.1", 8760, None, encrypted=False)
    assert guard.right_host("127.0.0.1:8760")
    assert guard.right_host("LOCALHOST:8760")
    for host in ("evil.example:8760", "127.0.0.1", "127.0.0.1:8761", "127.0.0.1:8760.evil.example", None):
        assert not guard.right_host(host)
    assert not Guard("0.0.0.0", 8760, "correct-horse-battery", encrypted=True).knows({"turnscope": "x"})


def test_a_chrome_offer_passes() -> None:
    check_offer(
        "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\na=ice-ufrag:aB3+\r\na=ice-pwd:aaaaaaaaaaaaaaaaaaaaaaaa\r\n"
        "a=fingerprint:sha-256 " + ":".join(["AB"] * 32) + "\r\na=rtpmap:111 opus/48000/2\r\n"
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"
    )
